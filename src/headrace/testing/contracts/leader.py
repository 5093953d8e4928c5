"""One leader at a time: renewed, fenced by itself, taken over after a kill. For stores with a clock of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from headrace.core.errors import CallerError, StoreFull
from headrace.core.leases import Lease, Leased
from headrace.ports.leases import Leases
from headrace.runtime.seams import Seams
from headrace.services.leadership import Leadership, Loop, NamedLease, Term
from headrace.testing.contracts.leader_child import LEASE
from headrace.testing.rig.children import FROZEN, state_of
from headrace.wiring import connect

HOLD_S = 3.0
LIMIT_S = 90.0
LOOKS = 5
LOOK_S = 0.02
ASKED_MAX = 8


class Frozen:
    """Leases that stop answering renewals, as a store does behind a broken network."""

    def __init__(self, inner: Leases) -> None:
        self._inner = inner

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        return await self._inner.acquire(name, holder, hold_s)

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        return await asyncio.Event().wait()

    async def release(self, name: str, fence: int) -> bool:
        return await asyncio.Event().wait()

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        return await self._inner.takeover(name, holder, epoch, hold_s)

    async def look(self, name: str) -> Lease | None:
        return await self._inner.look(name)

    def leases(self) -> AsyncIterator[Lease]:
        return self._inner.leases()


class Full(Frozen):
    """Leases of a store without room: what is held already is said again, and nothing new is written."""

    def __init__(self, inner: Leases) -> None:
        super().__init__(inner)
        self.asked = 0

    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        self.asked += 1
        return await super().acquire(name, holder, hold_s)

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        raise StoreFull("no room")

    async def release(self, name: str, fence: int) -> bool:
        raise StoreFull("no room")


class LeaderContract:
    """`services.leadership`. Brings: `url` of a store with a clock of its own. Broken twins replace `leadership`."""

    @pytest.fixture
    def leadership(self) -> type[Leadership]:
        return Leadership

    async def test_of_two_one_leads_for_longer_than_a_hold(self, url: str, leadership: type[Leadership]) -> None:
        leading: list[int] = []

        async def loop(term: Term) -> None:
            leading.append(term.fence)
            await asyncio.Event().wait()

        async with connect(url) as one, connect(url) as other:
            leases = (one.leases, other.leases)
            async with _led(leadership, leases[0], loop), _led(leadership, leases[1], loop):
                await _until(lambda: bool(leading))
                begun = time.monotonic()
                await _until(lambda: time.monotonic() - begun > 2 * HOLD_S or len(leading) > 1)
                assert len(leading) == 1

    async def test_a_leader_that_stops_lets_go_at_once(self, url: str, leadership: type[Leadership]) -> None:
        async def loop(term: Term) -> None:
            stop.set()

        stop = asyncio.Event()
        async with connect(url) as engine:
            await leadership(NamedLease(engine.leases, LEASE, 60.0), loop, stop, Seams()).run()
            left = await engine.leases.look(LEASE)
        assert left is not None
        assert left.free

    async def test_a_leader_that_hears_nothing_ends_its_loop_before_its_lease_ends(
        self, url: str, leadership: type[Leadership]
    ) -> None:
        ended: list[float] = []
        async with connect(url) as engine:

            async def loop(term: Term) -> None:
                # What is left was counted after it was asked for: the lease ends then or later.
                ends_at = max([time.monotonic() + await _left_s(engine.leases) for _ in range(LOOKS)])
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(ends_at - time.monotonic())

            async with _led(leadership, Frozen(engine.leases), loop, hold_s=4.0):
                await _until(lambda: bool(ended))
        assert ended[0] > 0

    async def test_a_lease_that_is_lost_ends_the_loop_and_there_is_another_election(
        self, url: str, leadership: type[Leadership]
    ) -> None:
        fences: list[int] = []
        cancelled: list[int] = []

        async def loop(term: Term) -> None:
            fences.append(term.fence)
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(term.fence)

        async with connect(url) as engine, _led(leadership, engine.leases, loop):
            await _until(lambda: bool(fences))
            await engine.leases.release(LEASE, fences[0])
            await _until(lambda: len(fences) > 1)
            assert cancelled == fences[:1]
            assert fences[1] > fences[0]

    async def test_a_lease_that_can_be_neither_renewed_nor_released_is_not_led_again_without_a_pause(
        self, url: str, leadership: type[Leadership]
    ) -> None:
        fences: set[int] = set()

        async def loop(term: Term) -> None:
            fences.add(term.fence)
            await asyncio.Event().wait()

        async with connect(url) as engine:
            full = Full(engine.leases)
            async with _led(leadership, full, loop):
                await _until(lambda: len(fences) > 1)
        # The first time, once near its end, and when it is over: a machine that stalls asks less often, not more.
        assert full.asked <= ASKED_MAX

    async def test_a_loop_that_fails_ends_it_and_lets_go(self, url: str, leadership: type[Leadership]) -> None:
        async def loop(term: Term) -> None:
            raise CallerError("wrong")

        async with connect(url) as engine:
            with pytest.raises(CallerError, match="wrong"):
                await leadership(NamedLease(engine.leases, LEASE, 60.0), loop, asyncio.Event(), Seams()).run()
            left = await engine.leases.look(LEASE)
        assert left is not None
        assert left.free

    async def test_a_killed_leader_is_followed_by_another_process(self, url: str, tmp_path: Path) -> None:
        with _candidates(url, tmp_path / "lines") as candidates:
            first = await _leading(tmp_path / "lines", above=0)
            candidates[first[1]].kill()
            # On a machine that stalls the first may have lost its lease and led again before it was killed.
            await _until(lambda: any(fence > first[0] and pid != first[1] for fence, pid in _lines(tmp_path / "lines")))

    async def test_a_frozen_leader_takes_no_step_after_another_took_over(self, url: str, tmp_path: Path) -> None:
        await frozen_leader(url, tmp_path / "lines")


async def _left_s(leases: Leases) -> float:
    found = await leases.look(LEASE)
    assert found is not None
    return found.left_s


async def frozen_leader(url: str, file: Path, *words: str) -> None:
    """Two processes; the leader freezes, the other takes over, the first thaws and must not go on."""
    with _candidates(url, file, *words) as candidates:
        fence, pid = await _leading(file, above=0)
        os.kill(pid, signal.SIGUSR1)
        await _until(lambda: state_of(pid) == FROZEN)
        await _leading(file, above=fence)
        os.kill(pid, signal.SIGCONT)
        # When it is a follower it waits for its turn, and leads again when the other one has gone.
        await _until(lambda: state_of(pid) != FROZEN)
        candidates[(await _leading(file, above=fence))[1]].terminate()
        await _until(lambda: _lines(file)[-1][1] == pid)
    fences = [line[0] for line in _lines(file)]
    assert fences == sorted(fences)


@asynccontextmanager
async def _led(
    kind: type[Leadership], leases: Leases, loop: Loop, hold_s: float = HOLD_S
) -> AsyncIterator[asyncio.Task[None]]:
    """A candidate beside the block."""
    stop = asyncio.Event()
    running = asyncio.create_task(kind(NamedLease(leases, LEASE, hold_s), loop, stop, Seams()).run())
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


@contextmanager
def _candidates(url: str, file: Path, *words: str) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    file.touch()
    command = [sys.executable, "-m", "headrace.testing.contracts.leader_child", url, str(file), *words]
    started = [subprocess.Popen(command) for _ in range(2)]
    try:
        yield {child.pid: child for child in started}
    finally:
        for child in started:
            child.kill()
            child.wait()


async def _leading(file: Path, above: int) -> tuple[int, int]:
    """Fence and process of the first line with a fence above this."""
    await _until(lambda: any(fence > above for fence, _ in _lines(file)))
    return next(line for line in _lines(file) if line[0] > above)


def _lines(file: Path) -> list[tuple[int, int]]:
    whole = [line.split() for line in file.read_text().split("\n")[:-1]]
    return [(int(fence), int(pid)) for fence, pid in whole]


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not true():
            await asyncio.sleep(LOOK_S)
