"""Asking Redis: scripts by their hash, answers that were lost, and errors in the words of `headrace.errors`.

The client itself repeats nothing: a repeat that nobody sees would hide what became of the first. Every call made here
may be sent again as it is, and is, a few times; then the server is `Unreachable` and the caller decides.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha1
from importlib.resources import files
from typing import Any, TypeVar

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ConnectionError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from headrace.errors import Busy, Conflict, HeadraceError, OperatorError, StoreFull, Unreachable
from headrace.services import Backoff

T = TypeVar("T")
CONNECTIONS_MAX = 16
CONNECT_S_MAX = 3.0
ANSWER_S_MAX = 5.0
IDLE_S_CHECKED = 15
TRIES = 4
# The first repeat comes almost at once: a connection of the pool that was lost long ago is found by its next call.
PAUSES = Backoff(0.01, 0.25, factor=5.0)
PIPELINE_MAX = 100
WRONG_KIND = "WRONGTYPE"
STATE_OF_SERVER = re.compile("[A-Z]{4,} ")
"""BUSY, MISCONF, NOREPLICAS, …: a word that tells of the server, not of what it was asked."""


@dataclass(frozen=True)
class Script:
    """A Lua script; `text` is what Redis runs."""

    text: str

    @cached_property
    def sha(self) -> str:
        return sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def script_named(name: str) -> Script:
    """A script of `lua/`, behind what all of them begin with."""
    folder = files(__package__) / "lua"
    return Script("\n".join((folder / f"{part}.lua").read_text("utf-8") for part in ("account", name)))


class RedisCalls:
    """One Redis database. Any number of calls may be made at once; `shown` is its URL without a password."""

    def __init__(self, url: str, database: int, shown: str, answer_s: float = ANSWER_S_MAX) -> None:
        self._shown, self._answer_s = shown, answer_s
        self._pool = BlockingConnectionPool.from_url(
            url,
            db=database,
            max_connections=CONNECTIONS_MAX,
            timeout=None,
            # The limit is set around the whole call instead: below Python 3.12 the client's own loses a cancellation.
            socket_timeout=None,
            socket_connect_timeout=min(answer_s, CONNECT_S_MAX),
            health_check_interval=IDLE_S_CHECKED,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._client = Redis(connection_pool=self._pool)
        self._execute: Callable[..., Awaitable[Any]] = self._client.execute_command

    async def run(self, script: Script, keys: Sequence[str], *arguments: str | bytes | int) -> Any:
        """The answer of one script."""

        async def call() -> Any:
            try:
                return await self._execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return await self._execute("EVAL", script.text, len(keys), *keys, *arguments)

        return await self._surely(call)

    async def run_each(self, script: Script, keys: Sequence[Sequence[str]]) -> list[Any]:
        """The answers of one script without arguments for many lists of keys, a good number per round trip; None where
        somebody else's key is in the way, which is no reason to know nothing of the others."""
        answers: list[Any] = []
        for first in range(0, len(keys), PIPELINE_MAX):
            answers += await self._surely(partial(self._pipelined, script, keys[first : first + PIPELINE_MAX]))
        return answers

    async def _pipelined(self, script: Script, keys: Sequence[Sequence[str]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            pipeline.script_load(script.text)
            for each in keys:
                pipeline.execute_command("EVALSHA", script.sha, len(each), *each)
            answers = (await pipeline.execute(raise_on_error=False))[1:]
        for error in answers:
            if isinstance(error, RedisError) and not str(error).startswith(WRONG_KIND):
                raise error
        return [None if isinstance(answer, RedisError) else answer for answer in answers]

    async def ask(self, question: Callable[[Redis], Awaitable[T]]) -> T:
        """The answer to a plain command, which may be sent more than once."""
        return await self._surely(lambda: question(self._client))

    async def close(self) -> None:
        await self._client.aclose()
        await self._pool.disconnect()

    async def _surely(self, call: Callable[[], Awaitable[T]]) -> T:
        """Send it again while the answer is unknown: only that can tell."""
        for failures in range(1, TRIES + 1):
            try:
                async with asyncio.timeout(self._answer_s):
                    return await call()
            except (AuthenticationError, AuthorizationError, ResponseError) as error:
                raise self._meaning(error) from error
            except (ConnectionError, TimeoutError, OSError) as error:
                # The others in the pool were most likely lost by the same event.
                with suppress(RedisError, OSError):
                    await self._pool.disconnect(inuse_connections=False)
                if failures == TRIES:
                    why = str(error) or f"nothing for {self._answer_s:g} s"
                    raise Unreachable(f"{self._shown} does not answer: {why}", "is Redis up?") from error
                await asyncio.sleep(PAUSES.pause_s(failures))
            except RedisError as error:
                raise OperatorError(f"{self._shown}: {error}") from error
        raise AssertionError("the last repeat returns or raises")

    def _meaning(self, error: RedisError) -> HeadraceError:
        text = f"{self._shown}: {error}"
        if isinstance(error, OutOfMemoryError):
            return StoreFull(text, "give Redis more memory; nothing is lost, and work goes on by itself")
        if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
            return OperatorError(text, "check user and password in SMAP_REDIS_URL, and what they may do")
        if str(error).startswith(WRONG_KIND):
            hint = "somebody else uses this key; remove all keys of the project, smap:proj:… and smap:acct:…:*"
            return Conflict(text, hint)
        if isinstance(error, ReadOnlyError | MasterDownError) or STATE_OF_SERVER.match(str(error)):
            return Busy(text)
        return OperatorError(text)
