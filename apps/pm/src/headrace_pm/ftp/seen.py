"""Names of files that are known, in Redis: the quick answer to "which of these 5,000 are new".

One set per folder, `pm:files:{system}:{server}:{path}`. It is a cache of the table and nothing more: a name is added
when its row is there, and removed when its file is moved. A name that is missing costs one more question to the table,
whose unique key decides. What Redis cannot answer, because it is away or has nothing of a folder, the table answers.

A set is filled from the table whole and at once: under another name first, which then takes its place. So nobody sees
half of it, and what should not be in it goes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from headrace.services import Backoff, CircuitBreaker
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp

if TYPE_CHECKING:
    from redis.asyncio import Redis

EXPIRE_S = 7 * 24 * 3600
# Measured: ten calls of 500 in one pipeline are quicker than one of 5,000, and Redis answers others in between.
NAMES_PER_CALL = 500
ANSWER_S_MAX = 3.0
CONNECTIONS_MAX = 20
TRIES = Backoff(1.0, 30.0)
_KEPT = re.compile(r"[^a-zA-Z0-9/]")
HASH_CHARS = 8
log = structlog.get_logger("headrace_pm.ftp")


class FileRegister(Protocol):
    """What the table of files knows of a folder; names are as in `file_name`."""

    async def unknown(self, folder: ServerFolder, names: Sequence[str]) -> set[str]:
        """Those of the names that the folder has no row of which is not MOVED."""

    def unmoved(self, folder: ServerFolder) -> AsyncIterator[Sequence[str]]:
        """The names of all rows of a folder that are not MOVED, some at a time."""

    async def stamps(self, folder: ServerFolder, names: Sequence[str]) -> Mapping[str, Stamp]:
        """Size and moment of those files as they were last registered; `Stamp(size)` where only that is known."""


@dataclass(slots=True)
class SeenCounts:
    """How often Redis answered, and how often the table had to."""

    asked: int = 0
    fallbacks: int = 0
    filled: int = 0


def set_key(folder: ServerFolder) -> str:
    """The key of a folder's set. Paths that look alike without their special characters differ by a hash."""
    path = _KEPT.sub("_", folder.path)
    if path != folder.path:
        path += ":" + hashlib.sha256(folder.path.encode()).hexdigest()[:HASH_CHARS]
    return f"pm:files:{folder.system_type}:{folder.server_key}:{path}"


def open_redis(
    url: str, password: str = "", connections_max: int = CONNECTIONS_MAX, answer_s_max: float = ANSWER_S_MAX
) -> Redis:
    """A client with the limits of the text; a password in the URL comes before the other."""
    from redis.asyncio import Redis

    return Redis.from_url(
        url,
        max_connections=connections_max,
        socket_timeout=answer_s_max,
        socket_connect_timeout=answer_s_max,
        password=None if "@" in url else password or None,
    )


class SeenNames:
    """The sets of all folders. Without Redis (None) the table answers everything."""

    def __init__(self, redis: Redis | None, register: FileRegister, now: Callable[[], float] = time.monotonic) -> None:
        self._redis, self._register, self._now = redis, register, now
        self._breaker = CircuitBreaker(backoff=TRIES)
        self._tries = 0
        self.counts = SeenCounts()

    async def new_of(self, folder: ServerFolder, names: Sequence[str]) -> set[str]:
        """Those of the names that are not known."""
        self.counts.asked += 1
        answers = await self._asked(folder, names)
        if answers is not None:
            return {name for name, is_known in zip(names, answers, strict=True) if not is_known}
        self.counts.fallbacks += 1
        unknown = await self._register.unknown(folder, names) if names else set()
        if len(unknown) < len(names):
            await self.fill(folder)
        return unknown

    async def add(self, folder: ServerFolder, names: Iterable[str]) -> None:
        """Their rows are there. If Redis is away, the next look at the table adds them."""
        await self._change("SADD", folder, list(names))

    async def remove(self, folder: ServerFolder, names: Iterable[str]) -> None:
        """Their files are moved."""
        await self._change("SREM", folder, list(names))

    async def fill(self, folder: ServerFolder) -> bool:
        """Make the set what the table says; whether that worked."""
        redis = self._redis
        if redis is None or self._breaker.open_at(self._now()):
            return False
        key = set_key(folder)
        making = f"{key}:making:{id(self)}"
        try:
            await redis.delete(making)
            count = 0
            async for names in self._register.unmoved(folder):
                if names:
                    await _execute(redis, "SADD", making, *names)
                    count += len(names)
            pipeline = redis.pipeline(transaction=True)
            if count:
                pipeline.rename(making, key)
                pipeline.expire(key, EXPIRE_S)
            else:
                pipeline.delete(key)
            await pipeline.execute()
        except _away() as error:
            self._failed(error)
            return False
        self.counts.filled += 1
        return True

    async def _asked(self, folder: ServerFolder, names: Sequence[str]) -> list[Any] | None:
        """What Redis says of each name; None if it says nothing, or knows nothing of the folder."""
        if self._redis is None or self._breaker.open_at(self._now()):
            return None
        key, number = set_key(folder), self._begin()
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.execute_command("EXISTS", key)
        for first in range(0, len(names), NAMES_PER_CALL):
            pipeline.execute_command("SMISMEMBER", key, *names[first : first + NAMES_PER_CALL])
        try:
            is_there, *answers = await pipeline.execute()
        except _away() as error:
            self._failed(error)
            return None
        self._breaker.passed(number)
        return [each for answer in answers for each in answer] if is_there else None

    async def _change(self, command: str, folder: ServerFolder, names: list[str]) -> None:
        if self._redis is None or not names or self._breaker.open_at(self._now()):
            return
        key, number = set_key(folder), self._begin()
        pipeline = self._redis.pipeline(transaction=False)
        for first in range(0, len(names), NAMES_PER_CALL):
            pipeline.execute_command(command, key, *names[first : first + NAMES_PER_CALL])
        pipeline.expire(key, EXPIRE_S)
        try:
            await pipeline.execute()
            self._breaker.passed(number)
        except _away() as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """The table answers meanwhile, which is slower: people should know."""
        pause_s, begins = self._breaker.fail(self._now())
        if begins:
            log.warning("redis.away", error=str(error), again_after_s=round(pause_s, 1))

    def _begin(self) -> int:
        self._tries += 1
        self._breaker.begin(self._tries)
        return self._tries


def _away() -> tuple[type[Exception], ...]:
    """What Redis raises when it does not answer. Its client takes 10 MB, and a process that only works on files has
    none."""
    from redis.exceptions import RedisError

    return RedisError, OSError


async def _execute(redis: Redis, *words: Any) -> None:
    call: Callable[..., Any] = redis.execute_command
    await call(*words)
