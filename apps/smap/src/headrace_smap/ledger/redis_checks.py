"""What a Redis must be like before smap trusts it with its account: not the cache's database, and it never evicts.

A database number does not protect from eviction: `maxmemory-policy` is one setting for the whole server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from redis.exceptions import NoPermissionError

from headrace.errors import CallerError, OperatorError, UnsafeStore
from headrace_smap.ledger.redis_calls import RedisCalls

Answers = Mapping[Any, Any]
DATABASE = 1
SCHEMES = ("redis", "rediss", "unix")
KEEPS_EVERYTHING = "noeviction"
_FORM = "write redis://[user:password@]host:port/1"


def shown(url: str) -> str:
    """The URL without its password."""
    hidden = re.sub(r"(?<=://)([^:/@?]*):.*@", r"\1:***@", url)
    return re.sub(r"(?i)([?&]password=)[^&#]*", r"\1***", hidden)


def database_of(url: str) -> int:
    """The database that the URL names; 0 is the cache's and refused."""
    try:
        parts = urlsplit(url)
        named = parse_qs(parts.query).get("db", [""])[0]
        if parts.scheme != "unix":
            named = named or parts.path.strip("/")
            _ = parts.port
    except ValueError as error:
        raise CallerError(f"SMAP_REDIS_URL={shown(url)} is not a URL: {error}", _FORM) from None
    if parts.scheme not in SCHEMES:
        raise CallerError(f"SMAP_REDIS_URL={shown(url)} does not name a Redis", _FORM)
    if named and not re.fullmatch("[0-9]{1,6}", named):
        raise CallerError(f"SMAP_REDIS_URL={shown(url)} names no database: {named!r} is not a number", _FORM)
    if named and int(named) == 0:
        message = f"SMAP_REDIS_URL={shown(url)} names database 0, which is the cache's: it is flushed and evicted"
        raise CallerError(message, "name database 1, or none: 1 is the default")
    return int(named or DATABASE)


async def check_settings(calls: RedisCalls, where: str) -> None:
    """Refuse a server that throws keys away when its memory is full: a project's progress would vanish half way."""
    # INFO is asked for later, too: by the run id in it a restart is noticed, which may have lost a moment.
    told = await _about_itself(calls)
    policy = str(told.get("maxmemory_policy", ""))
    if not policy or not told.get("run_id"):
        raise OperatorError(f"{where} does not tell its maxmemory-policy and run_id", "allow the user INFO")
    if policy != KEEPS_EVERYTHING:
        raise UnsafeStore(
            f"{where} has maxmemory-policy {policy}: when its memory is full it removes keys, smap's counts among them",
            "redis-cli CONFIG SET maxmemory-policy noeviction (and in redis.conf; it is one setting for all databases"
            " of a server, so give smap a server of its own if another program needs eviction)",
        )


async def _about_itself(calls: RedisCalls) -> Answers:
    """What Redis tells this user about itself; nothing if it may not ask."""
    try:
        return await calls.ask(lambda redis: redis.info())
    except OperatorError as error:
        if isinstance(error.__cause__, NoPermissionError):
            return {}
        raise
