"""One server in a keeper's hands: the process, the proxy before it, and what was done to both.

Starting and stopping block, so threads do it; what was asked for first is done first.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import CallerError, Conflict
from headrace.testing.rig import places
from headrace.testing.rig.catalogue import server_class
from headrace.testing.rig.doctor import examine
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.proxy.faults import FORMS, parse
from headrace.testing.rig.server import Server

ACTIONS = ("kill", "stop", "start", "restart", "pause", "resume")
UNDONE_BY = {"kill": "start", "stop": "start", "pause": "resume"}
LOSING = "headrace rig break redis restart --lose-last-second"


@dataclass(frozen=True, slots=True)
class ServerOrder:
    """What to do to a server, and after how many seconds it is undone (None: when somebody says so)."""

    words: tuple[str, ...]
    for_s: float | None = None
    lose_last_second: bool = False


class Kept:
    """One server, reached through its proxy. One action at a time."""

    def __init__(self, server: Server, version: str, proxy: Proxy) -> None:
        self._server = server
        self._version = version
        self._proxy = proxy
        self.asked_count = 1
        self._rest = ""
        self._acting = asyncio.Lock()
        self._healing: dict[str, tuple[float, asyncio.Task[None]]] = {}

    @classmethod
    async def start(cls, name: str, settings: Mapping[str, str]) -> Kept:
        """A server that answers, or nothing at all."""
        version = await asyncio.to_thread(_version, name)
        server = await asyncio.to_thread(server_class(name), settings)
        try:
            await asyncio.to_thread(server.start)
            proxy = server.new_proxy()
            proxy.open()
        except BaseException:
            await asyncio.to_thread(server.remove)
            raise
        return cls(server, version, proxy)

    @property
    def state(self) -> str:
        if self._server.running:
            return "paused" if self._rest == "paused" else "up"
        # One that ended without being asked was killed by somebody.
        return self._rest if self._rest == "stopped" else "killed"

    async def again(self, settings: Mapping[str, str]) -> None:
        """Asked for once more: it starts if it does not run; other settings would need another server."""
        if settings and dict(settings) != self._server.settings:
            name = self._server.name
            raise Conflict(f"{name} is up with other settings", f"headrace rig down {name}, then up again")
        self.asked_count += 1
        async with self._acting:
            await self._act("start")

    async def remove(self) -> None:
        async with self._acting:
            self._stop_waiting(*self._healing)
            await asyncio.to_thread(self._proxy.close)
            await asyncio.to_thread(self._server.remove)

    async def suffer(self, order: ServerOrder) -> None:
        """Break something, or mend it."""
        word = order.words[0]
        async with self._acting:
            if word in ACTIONS:
                self._check_action(order)
                self._stop_waiting("process")
                await self._act(word, order.lose_last_second)
                self._heal_later("process", order.for_s, lambda: self._act(UNDONE_BY[word]))
            else:
                self._check_line(order)
                self._proxy.apply(parse(order.words))
                self._stop_waiting("line")
                self._heal_later("line", order.for_s, self._heal_line)
            if word == "heal":
                self._stop_waiting("process")
                await self._act("resume")
                await self._act("start")

    async def document(self) -> dict[str, Any]:
        """All there is to know of it."""
        server, url = self._server, self._proxy.url
        running = server.running
        return {
            "name": server.name,
            "version": self._version,
            "state": self.state,
            "pid": server.pid if running else None,
            "url": url,
            "direct_url": server.url,
            "memory_bytes": await asyncio.to_thread(server.memory) if running else 0,
            "faults": [str(fault) for fault in self._proxy.faults],
            "heals_in_s": self._heals_in(),
            "settings": server.settings,
            "variables": server.variables(url),
            "log": str(server.home / places.LOG),
        }

    def _check_action(self, order: ServerOrder) -> None:
        word, *rest = order.words
        name = self._server.name
        if rest:
            raise CallerError(f"{word} stands alone, not with {' '.join(rest)!r}", f"headrace rig break {name} {word}")
        if order.for_s is not None and word not in UNDONE_BY:
            raise CallerError(f"{word} has nothing to undo after a while", f"--for goes with {', '.join(UNDONE_BY)}")
        if word == "pause" and not self._server.running:
            raise Conflict(f"{name} does not run", f"headrace rig break {name} start")
        if order.lose_last_second and (word != "restart" or not self._can_lose()):
            raise CallerError(f"--lose-last-second does not go with {word} of {name}", LOSING)

    def _check_line(self, order: ServerOrder) -> None:
        if order.words[0] not in FORMS:
            possible = f"on the line: {'; '.join(FORMS.values())}. On the process: {', '.join(ACTIONS)}"
            raise CallerError(f"{order.words[0]!r} is nothing that can be done to a server", possible)
        if order.lose_last_second:
            raise CallerError(f"--lose-last-second does not go with {order.words[0]}", LOSING)
        if order.for_s is not None and order.words[0] == "heal":
            raise CallerError("heal has nothing to undo after a while", "leave --for out")

    def _can_lose(self) -> bool:
        return "lose_last_second" in inspect.signature(self._server.restart).parameters

    async def _act(self, word: str, lose_last_second: bool = False) -> None:
        server = self._server
        if self.state == "paused" and word in ("resume", "stop", "restart"):
            # A frozen process hears no polite signal.
            server.resume()
            self._rest = ""
        if word == "pause":
            server.pause()
            self._rest = "paused"
        elif word == "kill":
            await asyncio.to_thread(server.kill)
            self._rest = "killed"
        elif word == "stop":
            await asyncio.to_thread(server.stop)
            self._rest = "stopped"
        elif word == "restart":
            lossy: dict[str, Any] = {"lose_last_second": True} if lose_last_second else {}
            await asyncio.to_thread(server.restart, **lossy)
            self._rest = ""
        elif word == "start" and not server.running:
            await asyncio.to_thread(server.start)
            self._rest = ""

    async def _heal_line(self) -> None:
        self._proxy.heal()

    def _heal_later(self, what: str, for_s: float | None, heal: Callable[[], Awaitable[None]]) -> None:
        if for_s is None:
            return

        async def wait() -> None:
            await asyncio.sleep(for_s)
            async with self._acting:
                del self._healing[what]
                await heal()

        self._healing[what] = (time.monotonic() + for_s, asyncio.create_task(wait()))

    def _stop_waiting(self, *whats: str) -> None:
        """Called by whoever holds the lock: a task that waits can be cancelled, one that heals holds it itself."""
        for what in whats:
            _, task = self._healing.pop(what, (0.0, None))
            if task is not None:
                task.cancel()

    def _heals_in(self) -> float | None:
        moments = [at for at, _ in self._healing.values()]
        return round(max(0.0, max(moments) - time.monotonic()), 1) if moments else None


def _version(name: str) -> str:
    """The version of the part that gives the server its name, as it is here, and what its users must know."""
    version, remark = examine([name])[0].version, server_class(name).remark
    return f"{version} ({remark})" if remark else version
