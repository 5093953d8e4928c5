"""The process that holds a user's servers while no command runs: `headrace rig up` starts it and leaves.

It owns the servers, so they die with it, and the proxies before them. Commands speak to it over a Unix socket: one
request in a line, then lines of progress, then the answer. With nothing left to keep it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import CallerError, Conflict, NotFound
from headrace.testing.rig import rendezvous
from headrace.testing.rig.kept import Kept, ServerOrder
from headrace.testing.rig.rendezvous import KeeperPlace, Say

UNUSED_S_MAX = 30.0
LOOK_S = 1.0
REQUEST_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: how it is told of progress, and whether it has gone away."""

    say: Say
    gone: Callable[[], bool] = lambda: False


class Keeper:
    """The servers of one rig by their names."""

    def __init__(self, place: KeeperPlace) -> None:
        self.place = place
        self.ended = asyncio.Event()
        self._kept: dict[str, Kept] = {}
        self._coming: dict[str, asyncio.Lock] = {}
        self._busy: set[asyncio.Task[Any]] = set()

    async def up(
        self, names: Sequence[str], settings: Mapping[str, Mapping[str, str]], caller: Caller
    ) -> dict[str, Any]:
        """Have these servers up, started side by side.

        If one fails, or the caller does not wait for the end, what this call started goes again, unless somebody else
        has asked for it meanwhile.
        """
        calls = [self._up(name, settings.get(name, {}), caller) for name in names]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures or caller.gone():
            started = [name for name, fresh in zip(names, outcomes, strict=True) if fresh is True]
            await self._remove([name for name in started if self._kept[name].asked_count == 1])
            raise failures[0] if failures else Conflict(f"nobody waits for {', '.join(names)} any more")
        return await self.status(names)

    async def down(self, names: Sequence[str]) -> dict[str, Any]:
        """Remove these servers, or all, also those that are just coming up."""
        for name in names:
            self._find(name)
        removed = await self._remove(names or list(self._coming))
        if not self._kept and self._busy == {asyncio.current_task()}:
            # From now on nobody is let in: whoever comes asks the next keeper.
            self.ended.set()
        return {"rig": self.place.name, "removed": removed, "keeper": os.getpid(), "ends": self.ended.is_set()}

    async def status(self, names: Sequence[str] = ()) -> dict[str, Any]:
        kept = [self._find(name) for name in names or sorted(self._kept)]
        servers = await asyncio.gather(*(each.document() for each in kept))
        return {"rig": self.place.name, "keeper": os.getpid(), "servers": servers}

    async def suffer(self, name: str, order: ServerOrder) -> dict[str, Any]:
        await self._find(name).suffer(order)
        return await self.status([name])

    async def remove_all(self) -> None:
        """What is being done is done first: nobody may be cut off in the middle of an answer."""
        if self._busy:
            await asyncio.wait(self._busy)
        await self._remove(list(self._coming))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request and its answer."""

        def tell(document: Mapping[str, Any]) -> None:
            writer.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")

        with contextlib.suppress(ConnectionError):
            line = await reader.readline()
            if line and not self.ended.is_set():
                with self._working():
                    tell(await self._answer(line, Caller(lambda text: tell({"said": text}), reader.at_eof)))
                    await writer.drain()
        writer.close()
        self.end_if_unused()

    def end_if_unused(self) -> None:
        if not self._kept and not self._busy:
            self.ended.set()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Nobody waits at the end for a caller who has said nothing yet, but for what is being done."""
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            yield
        finally:
            self._busy.discard(task)

    async def _answer(self, line: bytes, caller: Caller) -> dict[str, Any]:
        try:
            return {"answer": await self._do(json.loads(line), caller)}
        except Exception as error:
            traceback.print_exc()
            return {"error": rendezvous.error_document(error)}

    async def _do(self, request: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match request:
            case {"verb": "up", "names": names, "settings": settings}:
                return await self.up(names, settings, caller)
            case {"verb": "down", "names": names}:
                return await self.down(names)
            case {"verb": "status"}:
                return await self.status()
            case {"verb": "break", "name": name, "words": words, "for_s": for_s, "lose_last_second": lossy}:
                return await self.suffer(name, ServerOrder(tuple(words), for_s, lossy))
        raise CallerError("the keeper does not know this request", "headrace rig down, then up: versions may differ")

    async def _up(self, name: str, settings: Mapping[str, str], caller: Caller) -> bool:
        """Whether this call started it."""
        async with self._coming.setdefault(name, asyncio.Lock()):
            if name in self._kept:
                await self._kept[name].again(settings)
                return False
            begun = time.monotonic()
            self._kept[name] = await Kept.start(name, settings)
            caller.say(f"{name} is up after {time.monotonic() - begun:.1f} s")
            return True

    def _find(self, name: str) -> Kept:
        if name not in self._kept:
            raise NotFound(f"{name} is not up", f"up: {', '.join(self._kept) or 'nothing'}")
        return self._kept[name]

    async def _remove(self, names: Sequence[str]) -> list[str]:
        removed = await asyncio.gather(*(self._remove_one(name) for name in names))
        return [name for name, was_up in zip(names, removed, strict=True) if was_up]

    async def _remove_one(self, name: str) -> bool:
        async with self._coming[name]:
            kept = self._kept.pop(name, None)
            if kept is not None:
                await kept.remove()
            return kept is not None


async def keep(place: KeeperPlace, lock: int, ready: Callable[[Keeper], Awaitable[None]]) -> None:
    """Be the keeper until somebody says so or nothing is kept; then leave no server behind."""
    keeper = Keeper(place)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeper.ended.set)
    place.socket.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(keeper.serve, place.socket, limit=REQUEST_BYTES_MAX)
    place.socket.chmod(0o600)
    try:
        await ready(keeper)
        while rendezvous.holds(place, lock) and not keeper.ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(keeper.ended.wait(), LOOK_S)
    finally:
        keeper.ended.set()
        server.close()
        await keeper.remove_all()


def main(name: str) -> None:
    """Part from the command that started us; it goes on when we can be spoken to."""
    heard, tell = os.pipe()
    if os.fork():
        os.close(tell)
        # A child that failed has said why on our standard error.
        os._exit(0 if os.read(heard, 1) else 1)
    os.close(heard)
    place = KeeperPlace(name)
    lock = rendezvous.hold(place)
    if lock is None:
        # Somebody else is, or was, the keeper: whoever started us asks there.
        os.write(tell, b".")
        return

    async def ready(keeper: Keeper) -> None:
        log = os.open(place.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for standard in (1, 2):
            os.dup2(log, standard)
        os.write(tell, b".")
        os.close(tell)
        asyncio.get_running_loop().call_later(UNUSED_S_MAX, keeper.end_if_unused)

    try:
        asyncio.run(keep(place, lock, ready))
    finally:
        rendezvous.leave(place, lock)


if __name__ == "__main__":
    main(sys.argv[1])
