"""Holding on to claims, losing them, and answers that never came."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from runtime_bench import Bench
from waiting import eventually

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Grant, Renewed, Settled, Settlement, Swept, Want
from headrace.core.errors import SchemaMismatch, Unknown, Unreachable
from headrace.core.parcels import Parcel
from headrace.core.tally import JobState
from headrace.ports.schedules import Schedules
from headrace.ports.store import Features
from headrace.runtime.context import AHEAD_ITEMS, Context, Out
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions
from headrace.testing.passage import RealPassage

SHORT = WorkerOptions(hold_s=0.5, poll_s=0.05, partial_s=0.05, grace_s=0.1)


class Faulty:
    """A store whose answers get lost on the way, as `faults` say: by method, what is raised after it was done (or
    before, for `Unreachable`), call by call; None lets a call through."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.faults: dict[str, list[Exception | None]] = {}
        self.fired: list[str] = []
        self.settlements: list[Settlement] = []

    @property
    def features(self) -> Features:
        return self._store.features

    @property
    def schedules(self) -> Schedules:
        return self._store.schedules

    def _fault(self, method: str) -> Exception | None:
        planned = self.faults.get(method)
        fault = planned.pop(0) if planned else None
        if fault is not None:
            self.fired.append(method)
        return fault

    async def _call(self, method: str, *arguments: Any) -> Any:
        fault = self._fault(method)
        if isinstance(fault, Unreachable | SchemaMismatch):
            raise fault
        answer = await getattr(self._store, method)(*arguments)
        if fault is not None:
            raise fault
        return answer

    async def send(self, owner: int | str, parcels: Sequence[Parcel]) -> bool:
        return bool(await self._call("send", owner, parcels))

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        grant: Grant = await self._call("claim", worker, wants, hold_s)
        return grant

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        self.settlements += settlements
        answers: list[Settled] = await self._call("settle", settlements)
        return answers

    async def sweep(self) -> Swept:
        swept: Swept = await self._call("sweep")
        return swept

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        fault = self._fault("renew")
        if fault is not None:
            raise fault
        return self._store.renew(worker, fences, hold_s)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return self._store.on_wake(ring)

    async def submit(self, submission: Any) -> Any:
        return await self._store.submit(submission)

    async def close(self) -> None:
        await self._store.close()


@pytest.fixture
def faulty(store: SqliteStore) -> Faulty:
    return Faulty(store)


class Heavy(msgspec.Struct, weakref=True):
    """A payload that can be asked whether it is still there."""

    number: int


class Weighing(Faulty):
    """A store that notes how many of the payloads that handlers have seen are there when their claim ends."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.seen: list[weakref.ref[Heavy]] = []
        self.there: list[int] = []

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        if any(settlement.end for settlement in settlements):
            self.there.append(sum(payload() is not None for payload in self.seen))
        return await super().settle(settlements)


async def test_payloads_do_not_wait_in_memory_for_the_settlement_of_their_claim(
    bench: Bench, store: SqliteStore
) -> None:
    flow, weighing = Flow("digest"), Weighing(store)

    @flow.stage(concurrency=8)
    async def one(payload: Heavy) -> None:
        weighing.seen.append(weakref.ref(payload))

    await bench.run(flow, *map(Heavy, range(8)), store=weighing)
    assert (len(weighing.seen), weighing.there) == (8, [0])


async def test_a_lost_answer_to_a_settlement_is_answered_by_sending_the_same_again(
    bench: Bench, faulty: Faulty
) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        calls.append(number)
        out.send("two", number)

    @flow.stage
    async def two(number: int) -> None: ...

    faulty.faults["settle"] = [Unknown("the answer was lost"), Unreachable("gone"), None, Unknown("again")]
    view = await bench.run(flow, *range(5), store=faulty)
    assert (view.stages["one"].done, view.stages["two"].done) == (5, 5)
    assert sorted(calls) == list(range(5))
    assert faulty.fired == ["settle"] * 3
    assert faulty.settlements[0] == faulty.settlements[1] == faulty.settlements[2]


async def test_a_store_that_is_away_for_a_while_costs_time_only(bench: Bench, faulty: Faulty) -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    for method in ("claim", "sweep"):
        faulty.faults[method] = [Unreachable("gone")] * 3
    assert (await bench.run(flow, 1, store=faulty)).state is JobState.FINISHED
    assert faulty.fired.count("claim") == 3


async def test_large_sends_are_staged_again_after_a_lost_answer(bench: Bench, faulty: Faulty) -> None:
    flow, count = Flow("digest"), 3 * AHEAD_ITEMS

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        for sent in range(count):
            out.send("two", sent)

    @flow.stage
    async def two(number: int) -> None: ...

    faulty.faults["send"] = [Unknown("lost"), None, Unknown("lost")]
    assert (await bench.run(flow, 1, store=faulty)).stages["two"].total == count
    assert faulty.fired == ["send", "send"]


async def test_what_cannot_heal_ends_the_worker_with_its_reason(bench: Bench, faulty: Faulty) -> None:
    flow = Flow("digest")

    @flow.stage
    async def one(number: int) -> None: ...

    faulty.faults["claim"] = [SchemaMismatch("newer than the code")]
    with pytest.raises(SchemaMismatch):
        await asyncio.wait_for(Worker(faulty, [flow]).run(), 5)


async def test_a_blocked_event_loop_keeps_its_claims(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage
    async def one(number: int) -> None:
        calls.append(number)
        time.sleep(1.2)  # noqa: ASYNC251 - blocking the loop is what this is about

    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=SHORT):
        view = await bench.ended(job)
    assert view.state is JobState.FINISHED
    assert calls == [1]


async def test_a_holder_that_cannot_renew_stops_before_its_hold_ends(bench: Bench, faulty: Faulty) -> None:
    flow, ends, started_at = Flow("digest"), [], []

    @flow.stage
    async def one(number: int, context: Context) -> None:
        started_at.append(time.monotonic())
        try:
            if len(started_at) == 1:
                await asyncio.Event().wait()
        finally:
            ends.append(time.monotonic())

    faulty.faults["renew"] = [Unreachable("gone")] * 3
    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=SHORT, store=faulty) as worker:
        view = await bench.ended(job)
        assert worker.observer.counts["claim.lost"] == 1
    assert ends[0] - started_at[0] < SHORT.hold_s
    assert (view.state, view.stages["one"].done) == (JobState.FINISHED, 1)
    assert not [settlement for settlement in faulty.settlements if settlement.dead or settlement.again]


async def test_a_claim_that_was_swept_is_dropped_and_its_outcomes_are_not_sent(bench: Bench, faulty: Faulty) -> None:
    flow, calls = Flow("digest"), list[int]()

    @flow.stage(feeds="two")
    async def one(number: int, out: Out, context: Context) -> None:
        out.send("two", number)
        calls.append(context.fence)
        if len(calls) == 1:
            # Nothing yields here until the hold has passed and nobody renewed it: the answer comes too late.
            time.sleep(1.0)  # noqa: ASYNC251

    @flow.stage
    async def two(number: int) -> None: ...

    faulty.faults["renew"] = [Unreachable("gone")] * 20
    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=SHORT, store=faulty):
        await eventually(lambda: len(calls) >= 1, "the handler is called")
        faulty.faults["renew"] = []
        view = await bench.ended(job)
    assert len(calls) == 2
    assert calls[1] > calls[0]
    assert calls[0] not in {settlement.fence for settlement in faulty.settlements}
    assert (view.stages["one"].done, view.stages["two"].total) == (1, 1)


async def test_a_cancelled_job_tells_its_handlers_that_it_is_ending(bench: Bench) -> None:
    flow, started = Flow("digest"), asyncio.Event()

    @flow.stage
    async def one(number: int, context: Context) -> None:
        started.set()
        await eventually(lambda: context.ending, "the handler is told")

    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=SHORT):
        await started.wait()
        assert await bench.store.cancel(job)
        view = await bench.ended(job)
    assert view.state is JobState.CANCELLED
    assert view.stages["one"].done == 1


async def test_a_claim_that_the_store_has_ended_is_dropped_at_the_next_beat(bench: Bench) -> None:
    flow, fences, cancelled = Flow("digest"), list[int](), []

    @flow.stage
    async def one(number: int, context: Context) -> None:
        fences.append(context.fence)
        if len(fences) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(context.fence)

    job = await bench.submit(flow, 1)
    async with bench.worker(flow, options=SHORT) as worker:
        await eventually(lambda: bool(fences), "the handler is called")
        await bench.store.settle([Settlement(fences[0], 1)])
        await bench.ended(job)
        await eventually(lambda: bool(cancelled), "the handler is cancelled")
        assert worker.observer.counts["claim.lost.lost"] == 1, "and not only when its hold ends"
    assert cancelled == fences[:1]


class Late(Faulty):
    """A store whose first grant is on its way for longer than it holds."""

    late: frozenset[int] = frozenset()

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        grant = await super().claim(worker, wants, hold_s)
        late = frozenset(claim.fence for claim in grant.claims if claim.flow == "digest")
        if late and not self.late:
            self.late = late
            await RealPassage().past(hold_s)
        return grant


async def test_a_grant_that_comes_too_late_is_not_used(bench: Bench, store: SqliteStore) -> None:
    flow, beside, late = Flow("digest"), Flow("beside"), Late(store)
    fences, started, release = list[int](), asyncio.Event(), asyncio.Event()

    @flow.stage
    async def one(number: int, context: Context) -> None:
        fences.append(context.fence)

    @beside.stage
    async def other(number: int) -> None:
        started.set()
        await release.wait()

    await bench.submit(beside, 1)
    async with bench.worker(flow, beside, options=SHORT, store=late) as worker:
        await started.wait()
        job = await bench.submit(flow, 1)
        await eventually(
            lambda: bool(fences) or worker.observer.counts["claim.lost"] > 0, "the late grant is used or dropped"
        )
        release.set()
        await bench.ended(job)
    assert late.late
    assert not late.late & set(fences)


async def test_a_worker_that_dies_is_taken_over(bench: Bench) -> None:
    flow, started, died = Flow("digest"), asyncio.Event(), False

    @flow.stage
    async def one(number: int) -> None:
        started.set()
        if not died:
            await asyncio.Event().wait()

    job = await bench.submit(flow, *range(8))
    running = asyncio.ensure_future(Worker(bench.store, [flow], options=SHORT).run())
    await started.wait()
    running.cancel()
    await asyncio.wait([running])
    died = True
    async with bench.worker(flow, options=SHORT) as worker:
        view = await bench.ended(job)
        assert worker.observer.counts["claims.swept"] >= 1
    assert view.stages["one"].done == 8


async def test_a_lost_claim_ends_the_handlers_that_still_run_for_it(bench: Bench, faulty: Faulty) -> None:
    flow, cancelled = Flow("digest"), []

    @flow.stage(batch=4, batch_wait_s=0.05)
    async def one(numbers: list[int]) -> None:
        if not cancelled:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(numbers)
                raise

    faulty.faults["renew"] = [Unreachable("gone")] * 3
    job = await bench.submit(flow, *range(4))
    async with bench.worker(flow, options=SHORT, store=faulty):
        view = await bench.ended(job)
    assert view.stages["one"].done == 4
    assert len(cancelled) == 1
