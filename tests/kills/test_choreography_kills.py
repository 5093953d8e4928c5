"""Relays and inlets are killed and frozen: every event is told, every message counts once, every account ends once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import apsw
import psycopg
import pytest
from choreography_child import ECHO, HOLD_S, READY
from waiting import eventually

from headrace.core.deliveries import Backlog, Subscription
from headrace.core.events import Event
from headrace.core.ledgers import Account, AccountTally
from headrace.runtime.programs import PARENT_VARIABLE, READY_VARIABLE
from headrace.wiring import open_store

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
CHILDREN = 2
KILLS = 12 * TIMES
FREEZES = TIMES
EVENTS = 50 * KILLS
END_S_MAX = 60.0
REPEATED = "WHERE deliveries > 1"
FINISHED = Subscription("finished", ("ledger.finished",))


class Services:
    """Processes that nobody but the test looks after. A kill strikes one that is at work."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url, self._folder = url, folder
        self._log = (folder / "services.log").open("ab")
        self._ready: dict[int, int] = {}
        self.children = [self._spawn() for _ in range(CHILDREN)]

    def _spawn(self) -> subprocess.Popen[bytes]:
        ready, tell = os.pipe()
        variables = {"HEADRACE_STORE": self._url, PARENT_VARIABLE: str(os.getpid()), READY_VARIABLE: str(tell)}
        child = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("choreography_child.py"))],
            cwd=self._folder,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(tell,),
        )
        os.close(tell)
        self._ready[child.pid] = ready
        return child

    async def at_work(self, index: int) -> subprocess.Popen[bytes]:
        child = self.children[index]
        if (ready := self._ready.pop(child.pid, None)) is not None:
            told = await asyncio.to_thread(os.read, ready, 1)
            os.close(ready)
            assert told, (self._folder / "services.log").read_text()
        return child

    async def kill(self, index: int, after_s: float) -> None:
        child = await self.at_work(index)
        await asyncio.sleep(after_s)
        child.kill()
        child.wait()
        self.children[index] = self._spawn()

    async def freeze(self, index: int) -> None:
        """SIGSTOP past the hold, then let it go on as if nothing had happened."""
        child = await self.at_work(index)
        child.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2.5 * HOLD_S)
        child.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for child in self.children:
            child.kill()
            child.wait()
        for ready in self._ready.values():
            os.close(ready)
        self._log.close()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Services]]:
    services: list[Services] = []
    yield services
    for each in services:
        each.stop()


async def besiege(store: Any, services: Services, chance: Random) -> None:
    """Events come while services die."""
    freezes = {KILLS * (number + 1) // (FREEZES + 1) for number in range(FREEZES)}
    each = EVENTS // KILLS
    for kill in range(KILLS):
        numbers = range(kill * each, (kill + 1) * each)
        await store.outbox.add([Event(f"i{number}", "item.ready", key=f"k{number % 7}") for number in numbers])
        if kill in freezes:
            await services.freeze(kill % CHILDREN)
        await services.kill(chance.randrange(CHILDREN), after_s=chance.uniform(0.0, 0.05))


async def prove(url: str, folder: Path, started: list[Services]) -> None:
    store: Any = await open_store(url)
    try:
        for subscription in (READY, ECHO, FINISHED):
            await store.bus.subscribe(subscription)
        for account in ("ready", "echo"):
            await store.ledger.open(Account(account))
            await store.ledger.seal(account, EVENTS)
        started.append(Services(url, folder))
        await besiege(store, started[0], Random(7))
        await eventually(lambda: ended(store), "every event is told and consumed", END_S_MAX)
        for account in ("ready", "echo"):
            tally = AccountTally(account, EVENTS, EVENTS, 0, sealed=True, finished=True)
            assert await store.ledger.tally(account) == tally
        told = (await store.bus.receive("finished", "test", 100, 30.0)).deliveries
        assert sorted(delivery.event.event_id for delivery in told) == ["echo.finished", "ready.finished"]
        assert not await store.bus.dead("ready")
        assert not await store.bus.dead("echo")
    finally:
        await store.close()


async def ended(store: Any) -> bool:
    quiet = (await store.outbox.lag()).unpublished == 0
    return quiet and [await store.bus.backlog(name) for name in ("ready", "echo")] == [Backlog(), Backlog()]


async def test_killed_services_on_sqlite_lose_nothing_and_count_once(
    sqlite_url: str, tmp_path: Path, started: list[Services]
) -> None:
    await prove(sqlite_url, tmp_path, started)
    store = apsw.Connection(str(tmp_path / "store.db"))
    found = store.execute(f"SELECT count(*) FROM headrace_delivery {REPEATED}").fetchall()
    assert found[0][0] > 0, "no message was taken over: the kills proved nothing"


async def test_killed_services_on_postgres_lose_nothing_and_count_once(
    postgres_url: str, tmp_path: Path, started: list[Services]
) -> None:
    await prove(postgres_url, tmp_path, started)
    with psycopg.connect(postgres_url) as connection:
        found = connection.execute(f"SELECT count(*) FROM headrace.delivery {REPEATED}").fetchall()
    assert found[0][0] > 0, "no message was taken over: the kills proved nothing"
