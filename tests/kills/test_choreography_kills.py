"""Relays and inlets are killed and frozen: every event is told, every message counts once, every account ends once."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
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
from headrace.testing.rig.workers import WorkerProcesses
from headrace.wiring import open_store

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
CHILDREN = 2
KILLS = 12 * TIMES
# Kills that all strike between two batches prove nothing: then others follow, so many at most.
KILLS_MAX = 5 * KILLS
FREEZES = TIMES
EVENTS_PER_KILL = 50
END_S_MAX = 120.0
REPEATED = "WHERE deliveries > 1"
FINISHED = Subscription("finished", ("ledger.finished",))


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Callable[[str], WorkerProcesses]]:
    started: list[WorkerProcesses] = []

    def start(url: str) -> WorkerProcesses:
        command = [sys.executable, str(Path(__file__).with_name("choreography_child.py"))]
        started.append(WorkerProcesses(url, command, tmp_path))
        started[-1].start(CHILDREN)
        return started[-1]

    yield start
    for each in started:
        each.stop()


async def at_work(services: WorkerProcesses, index: int) -> int:
    """A kill strikes one that is at work."""
    await eventually(lambda: index in services.ready(), services.log, END_S_MAX)
    return index


async def besiege(store: Any, services: WorkerProcesses, repeated: Callable[[], int]) -> int:
    """Events come while services die, until one had messages in hand; how many events there were."""
    chance = Random(7)
    freezes = {KILLS * (number + 1) // (FREEZES + 1) for number in range(FREEZES)}
    for kill in range(KILLS_MAX):
        numbers = range(kill * EVENTS_PER_KILL, (kill + 1) * EVENTS_PER_KILL)
        await store.outbox.add([Event(f"i{number}", "item.ready", key=f"k{number % 7}") for number in numbers])
        if kill in freezes:
            await services.freeze(await at_work(services, kill % CHILDREN), 2.5 * HOLD_S)
        victim = await at_work(services, chance.randrange(CHILDREN))
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        services.kill(victim)
        if kill + 1 >= KILLS and repeated():
            return numbers.stop
    raise AssertionError("no message was taken over: the kills proved nothing")


async def prove(url: str, start: Callable[[str], WorkerProcesses], repeated: Callable[[], int]) -> None:
    store: Any = await open_store(url)
    try:
        for subscription in (READY, ECHO, FINISHED):
            await store.bus.subscribe(subscription)
        for account in ("ready", "echo"):
            await store.ledger.open(Account(account))
        events = await besiege(store, start(url), repeated)
        for account in ("ready", "echo"):
            await store.ledger.seal(account, events)
        await eventually(lambda: ended(store), "every event is told and consumed", END_S_MAX)
        for account in ("ready", "echo"):
            tally = AccountTally(account, events, events, 0, sealed=True, finished=True)
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
    sqlite_url: str, tmp_path: Path, services: Callable[[str], WorkerProcesses]
) -> None:
    def repeated() -> int:
        with closing(apsw.Connection(str(tmp_path / "store.db"))) as connection:
            return one(connection.execute(f"SELECT count(*) FROM headrace_delivery {REPEATED}").fetchall())

    await prove(sqlite_url, services, repeated)


async def test_killed_services_on_postgres_lose_nothing_and_count_once(
    postgres_url: str, services: Callable[[str], WorkerProcesses]
) -> None:
    def repeated() -> int:
        with psycopg.connect(postgres_url) as connection:
            return one(connection.execute(f"SELECT count(*) FROM headrace.delivery {REPEATED}").fetchall())

    await prove(postgres_url, services, repeated)


def one(rows: Sequence[tuple[Any, ...]]) -> int:
    """The only value of an answer."""
    ((value,),) = rows
    return int(value)
