"""Schedules: a moment fires once, and its row and its job are one."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.claims import Want
from headrace.core.errors import CallerError, Conflict, NotFound, UnknownStage
from headrace.core.jobs import JobFilter, Submission
from headrace.core.parcels import PAYLOAD_BYTES_MAX
from headrace.core.schedules import (
    FIRES_KEPT_MS,
    DueSchedule,
    Fire,
    FireOutcome,
    FireView,
    Firing,
    Origin,
    Overlap,
    Schedule,
    ScheduleView,
    fire_key,
)
from headrace.ports.parts import Parts
from headrace.testing.contracts.bench import flow, parcel, work
from headrace.testing.contracts.only import only
from headrace.testing.passage import Passage

TICKING = flow(work("tick"), name="ticking")
NIGHTLY = Schedule("nightly", "ticking", "0 3 * * *", "Asia/Ho_Chi_Minh")
FAR_MS = 3_600_000


def submission(moment_ms: int, job: str = "", name: str = "nightly", stage: str = "tick") -> Submission:
    """The job of one moment; whoever fires makes up another id, and the key is the same."""
    key = fire_key(name, moment_ms)
    digest = hashlib.sha256(key.encode()).hexdigest()
    return Submission(job or f"job-{moment_ms}", "ticking", TICKING.graph, (parcel(stage, 1),), key=key, digest=digest)


def firing(due: DueSchedule, *moments: int, **options: Any) -> Firing:
    """Fire these moments of a schedule as it was seen. Options: fields of a firing, `job`, `manual`."""
    job, manual = options.pop("job", ""), options.pop("manual", False)
    fires = tuple(Fire(moment, submission(moment, job), manual) for moment in moments)
    handled_ms = options.pop("handled_ms", max(moments, default=due.handled_ms))
    due_ms = options.pop("due_ms", handled_ms + FAR_MS)
    return Firing(due.schedule.name, due.revision, due.handled_ms, handled_ms, due_ms, fires, **options)


async def seen(store: Parts, name: str = "nightly") -> DueSchedule:
    """A schedule as a worker would see it; it must want to be looked at."""
    due = await store.schedules.due(["ticking"])
    return only([each for each in due.schedules if each.schedule.name == name])


async def view(store: Parts, name: str = "nightly") -> ScheduleView:
    return only([each for each in await store.schedules.look() if each.schedule.name == name])


async def jobs(store: Parts) -> int:
    return len(await store.jobs(JobFilter(flow="ticking", limit=1_000)))


async def fired(store: Parts, *offsets: int, **options: Any) -> list[FireView]:
    """Fire moments by their distance from what is handled, whether or not the schedule is due."""
    state = await view(store)
    await store.schedules.set_paused("nightly", True)
    await store.schedules.set_paused("nightly", False)
    moments = (state.handled_ms + offset for offset in offsets)
    return await store.schedules.fire(firing(await seen(store), *moments, **options))


async def attend(store: Parts, passage: Passage, *declared: Schedule) -> None:
    """A worker starts and says that it is alive."""
    await store.schedules.declare("worker-1", ["ticking"], declared)
    await store.claim("worker-1", [Want("ticking", "tick", 1, 1)], passage.brief_s)


class FiringContract:
    """What a fire is. Brings: `store` (Parts), `handles`, `passage`."""

    @pytest.fixture
    async def handles(self, store: Parts) -> Sequence[Parts]:
        return [store]

    async def test_an_added_schedule_counts_from_now_and_wants_to_be_looked_at(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await store.schedules.due(["other", "ticking"])
        each = only(due.schedules)
        assert (each.schedule, each.asked_ms, each.running) == (NIGHTLY, None, True)
        assert abs(each.handled_ms - due.now_ms) < 5_000
        assert not (await store.schedules.due(["other"])).schedules

    async def test_a_schedule_that_is_not_due_is_left_alone_until_it_is(self, store: Parts, passage: Passage) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        await store.schedules.fire(firing(due, due_ms=due.handled_ms + int(passage.brief_s * 1_000) + 500))
        quiet = await store.schedules.due(["ticking"])
        assert quiet.schedules == ()
        assert quiet.wait_s is not None
        assert 0 < quiet.wait_s <= passage.brief_s + 0.5
        await passage.past(passage.brief_s + 0.5)
        assert (await seen(store)).handled_ms == due.handled_ms

    async def test_a_fire_is_a_row_and_a_job(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        moment = due.handled_ms + 1
        fire = only(await store.schedules.fire(firing(due, moment, missed=3)))
        assert (fire.moment_ms, fire.outcome, fire.job) == (moment, FireOutcome.FIRED, f"job-{moment}")
        assert (await store.job(fire.job)).key == fire_key("nightly", moment)
        shown = await view(store)
        assert (shown.handled_ms, shown.missed, shown.fires) == (moment, 3, (fire,))

    async def test_what_cannot_be_submitted_leaves_neither_row_nor_job(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        good, moment = due.handled_ms + 1, due.handled_ms + 2
        wrong = replace(submission(moment), parcels=(parcel("nowhere", 1),))
        with pytest.raises(UnknownStage):
            await store.schedules.fire(
                replace(firing(due, good), fires=(Fire(good, submission(good)), Fire(moment, wrong)))
            )
        assert (await seen(store)).handled_ms == due.handled_ms
        assert ((await view(store)).fires, await jobs(store)) == ((), 0)

    async def test_a_repeated_firing_gets_the_first_answer(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        moment = due.handled_ms + 1
        first = await store.schedules.fire(firing(due, moment))
        assert await store.schedules.fire(firing(due, moment)) == first
        assert await store.schedules.fire(firing(due, moment, job="another-id")) == first
        assert await jobs(store) == 1

    async def test_one_of_many_fires(self, store: Parts, handles: Sequence[Parts]) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        moment = due.handled_ms + 1
        answers = await asyncio.gather(
            *(handles[n % len(handles)].schedules.fire(firing(due, moment, job=f"job-{n}")) for n in range(9))
        )
        assert len({only(answer).job for answer in answers}) == 1
        assert await jobs(store) == 1

    async def test_a_moment_that_has_its_row_is_left_alone_when_the_clock_goes_back(self, store: Parts) -> None:
        await store.schedules.add(replace(NIGHTLY, overlap=Overlap.SKIP))
        due = await seen(store)
        ahead = (due.handled_ms + FAR_MS, due.handled_ms + FAR_MS + 1)
        first = await store.schedules.fire(firing(due, *ahead))
        assert [fire.outcome for fire in first] == [FireOutcome.FIRED, FireOutcome.OVERLAPPED]
        await store.cancel(first[0].job)
        back = await seen(store)
        assert back.handled_ms == ahead[1]
        await store.schedules.fire(firing(back, handled_ms=due.handled_ms))
        assert await store.schedules.fire(firing(due, *ahead)) == first
        assert await jobs(store) == 1

    async def test_a_firing_on_an_older_sight_changes_nothing(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        await store.schedules.fire(firing(due, due.handled_ms + 2))
        assert await store.schedules.fire(firing(due, due.handled_ms + 1)) == []
        assert (await view(store)).handled_ms == due.handled_ms + 2
        assert await jobs(store) == 1

    async def test_a_fire_without_a_job_says_why(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        moment = due.handled_ms + 1
        refused = replace(firing(due, moment), fires=(Fire(moment, None, reason="two roots"),))
        fire = only(await store.schedules.fire(refused))
        assert (fire.outcome, fire.job, fire.reason) == (FireOutcome.REFUSED, "", "two roots")

    async def test_a_key_that_somebody_used_for_another_job_is_refused_by_name(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        moment = due.handled_ms + 1
        await store.submit(replace(submission(moment, "by-hand"), digest="another body"))
        fire = only(await store.schedules.fire(firing(due, moment)))
        assert (fire.outcome, fire.job) == (FireOutcome.REFUSED, "")
        assert "by-hand" in fire.reason
        assert (await view(store)).handled_ms == moment

    async def test_fires_are_forgotten_after_their_time(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        old, older = due.handled_ms - FIRES_KEPT_MS - 1_000, due.handled_ms - FIRES_KEPT_MS - 2_000
        await store.schedules.fire(firing(due, older, old, handled_ms=due.handled_ms))
        await store.schedules.fire(firing(due, due.handled_ms))
        assert [fire.moment_ms for fire in (await view(store)).fires] == [due.handled_ms]


class OverlapContract:
    """What overlaps: decided in the transaction that fires. Brings: `store` (Parts)."""

    async def test_a_moment_is_passed_over_while_the_job_before_is_open(self, store: Parts) -> None:
        await store.schedules.add(replace(NIGHTLY, overlap=Overlap.SKIP))
        first = only(await fired(store, 1))
        over = only(await fired(store, 2_000))
        assert (over.outcome, over.job) == (FireOutcome.OVERLAPPED, "")
        await store.cancel(first.job)
        last = only(await fired(store, 4_000))
        assert last.outcome is FireOutcome.FIRED
        assert [fire.outcome for fire in (await view(store)).fires] == [last.outcome, over.outcome, first.outcome]
        assert await jobs(store) == 2

    async def test_two_moments_of_one_firing_overlap(self, store: Parts) -> None:
        await store.schedules.add(replace(NIGHTLY, overlap=Overlap.SKIP))
        both = await fired(store, 1, 2)
        assert [fire.outcome for fire in both] == [FireOutcome.FIRED, FireOutcome.OVERLAPPED]

    async def test_an_operators_fire_does_not_wait(self, store: Parts) -> None:
        await store.schedules.add(replace(NIGHTLY, overlap=Overlap.SKIP))
        await fired(store, 1)
        asked = only(await fired(store, 2_000, manual=True))
        assert (asked.outcome, asked.manual) == (FireOutcome.FIRED, True)

    async def test_jobs_may_overlap_if_nothing_is_said(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        both = await fired(store, 1, 2)
        assert [fire.outcome for fire in both] == [FireOutcome.FIRED, FireOutcome.FIRED]


class SteeringContract:
    """What operators do to schedules. Brings: `store` (Parts), `passage`."""

    async def test_the_same_again_is_the_same_and_another_one_is_refused(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        before = await seen(store)
        await store.schedules.add(NIGHTLY)
        assert await seen(store) == before
        with pytest.raises(Conflict, match="nightly"):
            await store.schedules.add(replace(NIGHTLY, timetable="0 4 * * *"))
        for name in ("", "a/b", "a@b", "x" * 101, "a\x00b"):
            with pytest.raises(CallerError):
                await store.schedules.add(replace(NIGHTLY, name=name))
        unfit = ({"tenant": ""}, {"tenant": "t" * 1_000}, {"payload": b"x" * (PAYLOAD_BYTES_MAX + 1)})
        for wrong in ({"jitter_s": -1.0}, {"tenant": "a\x00b"}, {"flow": "a\x00b"}, {"stage": "\ud800"}, *unfit):
            with pytest.raises(CallerError):
                await store.schedules.add(replace(NIGHTLY, name="other", **wrong))

    async def test_a_paused_schedule_does_not_fire_and_resumes_from_now(self, store: Parts, passage: Passage) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        assert await store.schedules.set_paused("nightly", True)
        assert not await store.schedules.set_paused("nightly", True)
        quiet = await store.schedules.due(["ticking"])
        assert (quiet.schedules, quiet.wait_s) == ((), None)
        assert await store.schedules.fire(firing(due, due.handled_ms + 1)) == []
        await passage.past(passage.brief_s)
        assert await store.schedules.set_paused("nightly", False)
        assert not await store.schedules.set_paused("nightly", False)
        assert (await seen(store)).handled_ms >= due.handled_ms + passage.brief_s * 1_000
        assert await jobs(store) == 0

    async def test_a_schedule_that_was_added_is_replaced_in_one_step(self, store: Parts, passage: Passage) -> None:
        await store.schedules.add(NIGHTLY, replace=True)
        before = await seen(store)
        await store.schedules.fire(firing(before, before.handled_ms + 1))
        await store.schedules.add(NIGHTLY, replace=True)
        assert (await store.schedules.due(["ticking"])).schedules == ()
        await passage.past(passage.brief_s)
        later = replace(NIGHTLY, timetable="0 4 * * *", payload=b"\xc0")
        await store.schedules.add(later, replace=True)
        after = await seen(store)
        assert after.schedule == later
        assert after.handled_ms >= before.handled_ms + passage.brief_s * 1_000
        assert await store.schedules.fire(firing(before, before.handled_ms + 2)) == []
        shown = await view(store)
        assert (shown.origin, len(shown.fires)) == (Origin.ADDED, 1)

    async def test_what_is_declared_or_another_flows_is_not_replaced(self, store: Parts, passage: Passage) -> None:
        await store.schedules.add(replace(NIGHTLY, name="by-hand"))
        await attend(store, passage, NIGHTLY)
        for other in (replace(NIGHTLY, tz="UTC"), replace(NIGHTLY, name="by-hand", flow="other")):
            with pytest.raises(Conflict, match=other.name):
                await store.schedules.add(other, replace=True)
        assert [each.schedule.flow for each in await store.schedules.look()] == ["ticking", "ticking"]
        assert (await view(store)).schedule == NIGHTLY

    async def test_one_schedule_is_shown_by_its_name(self, store: Parts) -> None:
        for name in ("nightly", "other"):
            await store.schedules.add(replace(NIGHTLY, name=name))
        due = await seen(store)
        await store.schedules.fire(firing(due, due.handled_ms + 1))
        shown = only(await store.schedules.look("nightly"))
        assert (shown.schedule, len(shown.fires)) == (NIGHTLY, 1)
        assert shown.fires == (await view(store)).fires
        assert only(await store.schedules.look("other")).fires == ()
        assert await store.schedules.look("nobody") == []

    async def test_an_operator_asks_for_one_fire(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        await store.schedules.set_paused("nightly", True)
        assert await store.schedules.run("nightly", 4_711)
        assert await store.schedules.run("nightly", 4_711)
        assert not await store.schedules.run("nightly", 4_712)
        due = await seen(store)
        assert (due.asked_ms, due.running) == (4_711, False)
        fire = only(await store.schedules.fire(firing(due, 4_711, handled_ms=due.handled_ms, manual=True)))
        assert (fire.outcome, fire.manual) == (FireOutcome.FIRED, True)
        assert await store.schedules.run("nightly", 4_711)
        assert (await store.schedules.due(["ticking"])).schedules == ()
        assert await store.schedules.fire(firing(due, 4_711, handled_ms=due.handled_ms, manual=True)) == [fire]
        assert await jobs(store) == 1

    async def test_what_is_not_there_cannot_be_steered(self, store: Parts) -> None:
        with pytest.raises(NotFound, match="nightly"):
            await store.schedules.set_paused("nightly", True)
        with pytest.raises(NotFound, match="nightly"):
            await store.schedules.run("nightly", 1)
        assert not await store.schedules.remove("nightly")

    async def test_a_removed_schedule_is_gone_and_its_jobs_stay(self, store: Parts) -> None:
        await store.schedules.add(NIGHTLY)
        due = await seen(store)
        await store.schedules.fire(firing(due, due.handled_ms + 1))
        assert await store.schedules.remove("nightly")
        assert await store.schedules.look() == []
        assert await store.schedules.fire(firing(due, due.handled_ms + 2)) == []
        assert await jobs(store) == 1


class DeclaringContract:
    """What flows declare. Brings: `store` (Parts), `passage`."""

    async def test_a_declaration_is_recorded_once(self, store: Parts, passage: Passage) -> None:
        await attend(store, passage, NIGHTLY)
        due = await seen(store)
        assert due.schedule == NIGHTLY
        await store.schedules.fire(firing(due, due.handled_ms + 1))
        await attend(store, passage, NIGHTLY)
        assert (await store.schedules.due(["ticking"])).schedules == ()
        shown = await view(store)
        assert (shown.origin, shown.state, shown.handled_ms) == (Origin.DECLARED, "active", due.handled_ms + 1)

    async def test_a_changed_declaration_is_followed(self, store: Parts, passage: Passage) -> None:
        await attend(store, passage, NIGHTLY)
        before = await seen(store)
        await passage.past(passage.brief_s)
        await attend(store, passage, replace(NIGHTLY, payload=b"\xc0"))
        changed = await seen(store)
        assert (changed.schedule.payload, changed.handled_ms) == (b"\xc0", before.handled_ms)
        assert await store.schedules.fire(firing(before, before.handled_ms + 1)) == []
        await attend(store, passage, replace(NIGHTLY, timetable="0 4 * * *"))
        assert (await seen(store)).handled_ms >= before.handled_ms + passage.brief_s * 1_000

    async def test_what_is_not_declared_any_more_does_not_fire(self, store: Parts, passage: Passage) -> None:
        await attend(store, passage, NIGHTLY)
        before = await seen(store)
        await store.schedules.add(replace(NIGHTLY, name="by-hand"))
        await attend(store, passage)
        assert [each.schedule.name for each in (await store.schedules.due(["ticking"])).schedules] == ["by-hand"]
        assert await store.schedules.fire(firing(before, before.handled_ms + 1)) == []
        assert (await view(store)).state == "undeclared"
        await passage.past(passage.brief_s)
        await attend(store, passage, NIGHTLY)
        assert (await seen(store)).handled_ms >= before.handled_ms + passage.brief_s * 1_000

    async def test_a_flow_takes_over_what_was_added_for_it_and_no_other_flow_does(
        self, store: Parts, passage: Passage
    ) -> None:
        await store.schedules.add(NIGHTLY)
        await attend(store, passage, NIGHTLY)
        assert (await view(store)).origin is Origin.DECLARED
        with pytest.raises(Conflict, match="ticking"):
            await store.schedules.declare("worker-2", ["other"], [replace(NIGHTLY, flow="other")])
        assert (await seen(store)).schedule == NIGHTLY

    async def test_a_schedule_says_whether_a_worker_has_its_flow(self, store: Parts, passage: Passage) -> None:
        await store.schedules.add(replace(NIGHTLY, name="orphan", flow="nobodys"))
        await attend(store, passage, NIGHTLY)
        assert [each.state for each in await store.schedules.look()] == ["active", "no worker"]
        with pytest.raises(Conflict, match="declared"):
            await store.schedules.remove("nightly")
        await passage.past(passage.brief_s)
        assert [each.state for each in await store.schedules.look()] == ["no worker", "no worker"]
        assert await store.schedules.remove("nightly")
