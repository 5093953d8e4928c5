"""The ledger of projects in Redis: the hash `smap:proj:{id}` of the specification, and beside it what makes it exact.

The hash has the four fields that every service knows. Under another prefix stand the items that ended, as digests of 16
bytes: a count follows from a set and never from a repeated increment. Every call is one script, so that nobody sees
half of it; a settlement of many items is several, each short enough not to keep others waiting.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from redis.asyncio import Redis

from headrace_smap.ledger.project_ledger import digest
from headrace_smap.ledger.redis_calls import RedisCalls, Script, script_named
from headrace_smap.ledger.redis_checks import check_settings, database_of, shown
from headrace_smap.values import PostEnd, Standing

PROJECT_PREFIX = "smap:proj:"
ACCOUNT_PREFIX = "smap:acct:"
PARTS = ("items", "failed", "finish", "crawl")
CALL_ITEMS_MAX = 2_000
SCAN_COUNT = 1_000


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of the ledger by what they do."""

    open: Script
    expect: Script
    seal: Script
    settle: Script
    restore: Script
    tally: Script


def load_scripts() -> Scripts:
    return Scripts(**{field.name: script_named(field.name) for field in fields(Scripts)})


def keys_of(project: str) -> list[str]:
    """Everything that Redis holds of a project."""
    return [PROJECT_PREFIX + project, *(f"{ACCOUNT_PREFIX}{project}:{part}" for part in PARTS)]


class RedisLedger:
    """`ProjectLedger` over one Redis database. `token` names a call, so that its repeat knows what the first did."""

    def __init__(
        self, calls: RedisCalls, scripts: Scripts | None = None, token: Callable[[], str] = secrets.token_hex
    ) -> None:
        self._calls, self.scripts, self._token = calls, scripts or load_scripts(), token

    async def open(self, project: str) -> bool:
        return bool(await self._calls.run(self.scripts.open, keys_of(project)))

    async def expect(self, project: str, found: int) -> Standing | None:
        return _standing(await self._calls.run(self.scripts.expect, keys_of(project), found))

    async def seal(self, project: str, total: int | None) -> Standing | None:
        token = self._token()
        given = "" if total is None else str(total)
        return _standing(await self._calls.run(self.scripts.seal, keys_of(project), token, given), token)

    async def settle(self, project: str, ends: Sequence[PostEnd]) -> Standing | None:
        token, keys, whole = self._token(), keys_of(project), None
        for part in _parts(ends):
            after = _standing(await self._calls.run(self.scripts.settle, keys, token, *_packed(part)), token)
            if after is None:
                return None
            whole = _together(whole, after)
        return whole

    async def tally(self, project: str) -> Standing | None:
        return _standing(await self._calls.run(self.scripts.tally, keys_of(project)))

    async def tallies(self, projects: Sequence[str]) -> list[Standing | None]:
        return [
            _standing(answer)
            for answer in await self._calls.run_each(self.scripts.tally, [keys_of(each) for each in projects])
        ]

    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        keys, whole = keys_of(project), None
        foreign = (max(0, known.done - known.counted), max(0, known.errors - known.failed))
        marks = (int(known.ours), known.crawl, int(known.items_lost), known.left_s)
        what = (known.status, known.total, *foreign, *marks)
        for part in _parts(ends):
            after = _standing(await self._calls.run(self.scripts.restore, keys, *what, *_packed(part)))
            assert after is not None, "a restored project is there"
            whole = _together(whole, after)
        assert whole is not None, "no ends are one empty part"
        return whole

    async def projects(self) -> list[str]:
        found: set[bytes] = set()
        cursor = 0
        while True:
            cursor, names = await self._calls.ask(partial(_scan, cursor))
            found.update(names)
            if not cursor:
                return sorted(name[len(PROJECT_PREFIX) :].decode(errors="replace") for name in found)

    async def era(self) -> str:
        return str((await self._calls.ask(lambda redis: redis.info("server")))["run_id"])

    async def forget(self, project: str) -> None:
        await self._calls.ask(lambda redis: redis.unlink(*keys_of(project)))


async def _scan(cursor: int, redis: Redis) -> tuple[int, list[bytes]]:
    """One step through the keys of all projects; a key may be met twice."""
    further, names = await redis.scan(cursor, f"{PROJECT_PREFIX}*", SCAN_COUNT, _type="hash")
    return further, [name for name in names if isinstance(name, bytes)]


def _parts(ends: Sequence[PostEnd]) -> list[Sequence[PostEnd]]:
    """Bounded parts; no ends at all are one empty part, which still looks at the line."""
    return [ends[first : first + CALL_ITEMS_MAX] for first in range(0, len(ends), CALL_ITEMS_MAX)] or [()]


def _packed(ends: Sequence[PostEnd]) -> tuple[bytes, bytes]:
    """Digests of those that went well and of those that failed, end to end."""
    return (
        b"".join([digest(end.item) for end in ends if end.ok]),
        b"".join([digest(end.item) for end in ends if not end.ok]),
    )


def _standing(answer: list[Any] | None, token: str = "") -> Standing | None:
    if answer is None:
        return None
    status, total, done, errors, counted, failed, mark, crawl, whole, new, surplus = answer
    return Standing(
        status=status.decode(errors="replace"),
        total=total,
        done=done,
        errors=errors,
        counted=counted,
        failed=failed,
        new=new,
        surplus=surplus,
        crossed=bool(token) and mark == token.encode(),
        ours=bool(mark),
        crawl=crawl.decode(errors="replace"),
        whole=bool(whole),
    )


def _together(earlier: Standing | None, later: Standing) -> Standing:
    """The standing after the later part, with what both parts did."""
    if earlier is None:
        return later
    return replace(later, new=earlier.new + later.new, surplus=earlier.surplus + later.surplus)


@asynccontextmanager
async def open_redis_ledger(url: str, checked: bool = True) -> AsyncIterator[RedisLedger]:
    """The ledger of the database that the URL names, 1 if it names none; refused where Redis could lose it. Unless that
    is `checked` nothing is asked yet: a Redis that is away is noticed by who needs it."""
    calls = RedisCalls(url, database_of(url), shown(url))
    try:
        if checked:
            await check_settings(calls, shown(url))
        yield RedisLedger(calls)
    finally:
        await calls.close()
