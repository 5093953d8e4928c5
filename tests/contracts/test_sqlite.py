"""The SQLite store keeps every contract, in memory and in a file that several handles share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from sqlite_handles import InAFile

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Settlement
from headrace.core.errors import Conflict, NotFound
from headrace.core.tally import JobState
from headrace.ports.backend import Backend
from headrace.testing.contracts import Bench, InspectorContract, OperationsContract, StoreContract
from headrace.testing.contracts.bench import ALL, flow, parcel, work
from headrace.testing.contracts.random_walk import Wanderer
from headrace.testing.passage import ManualClock, Passage

PLAIN = flow(work("read"))


class TestSqliteInMemory(StoreContract, OperationsContract, InspectorContract):
    @pytest.fixture
    async def store(self, clock: ManualClock) -> AsyncIterator[Backend]:
        store = await SqliteStore.open(clock=clock)
        yield store
        await store.close()


class TestSqliteInAFile(InAFile, StoreContract, OperationsContract, InspectorContract): ...


class TestSqliteTime:
    """What only a clock in the hand can show."""

    @pytest.fixture
    async def bench(self, tmp_path: Path, clock: ManualClock, passage: Passage) -> AsyncIterator[Bench]:
        store = await SqliteStore.open(str(tmp_path / "store.db"), clock=clock)
        yield Bench(store, passage)
        await store.close()

    async def test_a_clock_that_jumps_an_hour_takes_no_live_claim(self, bench: Bench, clock: ManualClock) -> None:
        job = await bench.submit(PLAIN, {"read": 3})
        for hour in (3_600.0, -7_200.0):
            claim = await bench.claim("read", room=1)
            clock.jump_wall(hour)
            assert (await bench.sweep()).lost == 0
            assert bench.renew("worker-1", claim).kept == {claim.fence}
            await bench.accept(claim)
        assert (await bench.tally(job, "read")).done == 2

    async def test_fences_rise_though_the_wall_clock_goes_back(self, bench: Bench, clock: ManualClock) -> None:
        await bench.submit(PLAIN, {"read": 4})
        fences = []
        for jump in (0.0, 3_600.0, -86_400.0, 5.0):
            clock.jump_wall(jump)
            fences.append((await bench.claim("read", room=1)).fence)
        assert fences == sorted(set(fences))

    async def test_a_store_restored_from_an_old_backup_goes_on_above_its_last_fence(
        self, tmp_path: Path, clock: ManualClock, passage: Passage
    ) -> None:
        bench = Bench(await SqliteStore.open(str(tmp_path / "store.db"), clock=clock), passage)
        await bench.submit(PLAIN, {"read": 4})
        await bench.store.close()
        backup = (tmp_path / "store.db").read_bytes()
        bench.store = await SqliteStore.open(str(tmp_path / "store.db"), clock=clock)
        before = [(await bench.claim("read", room=1)).fence for _ in range(3)]
        await bench.store.close()
        clock.advance(1.0)
        (tmp_path / "restored.db").write_bytes(backup)
        bench.store = await SqliteStore.open(str(tmp_path / "restored.db"), clock=clock)
        assert (await bench.claim("read", room=1)).fence > max(before)
        await bench.store.close()

    async def test_what_an_earlier_boot_held_comes_back(
        self, tmp_path: Path, clock: ManualClock, passage: Passage
    ) -> None:
        bench = Bench(await SqliteStore.open(str(tmp_path / "store.db"), clock=clock), passage)
        job = await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read")
        await bench.store.close()
        rebooted = ManualClock(clock.wall(), monotonic=5.0, boot="boot-2")
        bench.store = await SqliteStore.open(str(tmp_path / "store.db"), clock=rebooted)
        assert not (await bench.settle(claim, ALL)).accepted
        assert (await bench.sweep()).lost == 1
        assert await bench.drain(job) is JobState.FINISHED
        await bench.store.close()

    async def test_an_abandoned_upload_is_dropped_after_a_day(self, bench: Bench, clock: ManualClock) -> None:
        await bench.send("upload", parcel("read", 3))
        clock.advance(86_400.0 - 60.0)
        await bench.sweep()
        clock.advance(120.0)
        await bench.sweep()
        with pytest.raises(Conflict):
            await bench.submit(PLAIN, {"read": 1}, job="upload", uploaded=1)
        await bench.submit(PLAIN, {"read": 1}, job="upload")
        assert (await bench.tally("upload", "read")).total == 1

    async def test_a_clock_that_jumps_days_drops_nothing_that_a_live_claim_staged(
        self, bench: Bench, clock: ManualClock
    ) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 1})
        claim = await bench.claim("a")
        assert await bench.send(claim.fence, parcel("b", 3))
        clock.jump_wall(3 * 86_400.0)
        await bench.sweep()
        await bench.accept(claim, flips=(0,))
        assert (await bench.tally(job, "b")).total == 3

    async def test_everything_of_a_job_is_gone_after_thirty_days(self, bench: Bench, clock: ManualClock) -> None:
        job = await bench.submit(PLAIN, {"read": 1}, key="k", digest="d")
        await bench.drain(job)
        clock.advance(29 * 86_400.0)
        await _retain_all(bench)
        await bench.look()
        assert await bench.state(job) is JobState.FINISHED
        clock.advance(2 * 86_400.0)
        await _retain_all(bench)
        with pytest.raises(NotFound):
            await bench.store.job(job)
        bench.jobs.clear()
        assert (await bench.try_submit(PLAIN, {"read": 1}, key="k", digest="d")).created

    async def test_an_ended_claim_is_remembered_for_ten_holds(self, bench: Bench, clock: ManualClock) -> None:
        await bench.submit(PLAIN, {"read": 2})
        claim = await bench.claim("read", room=1)
        settlement = Settlement(claim.fence, 1, done=1)
        await bench.repeat(settlement)
        clock.advance(9 * bench.passage.hold_s)
        await bench.sweep()
        assert (await bench.repeat(settlement)).accepted


class TestSqliteWalks:
    """Many more walks than a server has time for."""

    @pytest.mark.parametrize("seed", range(100, 140))
    async def test_a_long_walk_ends_with_a_sound_account(self, clock: ManualClock, passage: Passage, seed: int) -> None:
        store = SqliteStore(InlineDatabase(), clock)
        await Wanderer(Bench(store, passage), Random(seed)).wander(150)


async def _retain_all(bench: Bench) -> None:
    """Retention goes in bounded pieces."""
    rows = await bench.store.retain()
    while rows:
        rows = await bench.store.retain()
