"""Phases with a deadline: a job fails with the names that are missing, and an operator may resume it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from matching_world import MatchingWorld, opened_world
from waiting import eventually

from headrace_matching.events.names import CLOSED_BY, COMPLETED, PRODUCTS_COLLECTED, VIDEOS_COLLECTED, Phase
from headrace_matching.phases.transitions import Transitions
from headrace_matching.settings import MatchingSettings

ALL = [phase.value for phase in Phase]
FOUR = CLOSED_BY[Phase.FEATURE_EXTRACTION]


@pytest.fixture
async def hurried(embedded: MatchingSettings) -> AsyncIterator[MatchingWorld]:
    """A phase may last two seconds."""
    async with opened_world(replace(embedded, phase_deadline_s=2.0)) as world:
        yield world


@pytest.fixture
async def hurried_everywhere(settings: MatchingSettings) -> AsyncIterator[MatchingWorld]:
    async with opened_world(replace(settings, phase_deadline_s=2.0)) as world:
        yield world


async def failed(world: MatchingWorld, job: str, phase: Phase) -> dict[str, object]:
    return await world.reaches(job, phase, "failed")


async def test_a_late_phase_fails_its_job_with_what_is_missing(hurried: MatchingWorld) -> None:
    job, other = await hurried.open(), await hurried.open()
    await hurried.complete(job, VIDEOS_COLLECTED)
    await hurried.complete(other, *COMPLETED)
    view = await failed(hurried, job, Phase.COLLECTION)
    assert view["missing"] == view["waiting_for"] == [PRODUCTS_COLLECTED]
    await hurried.reaches(other, Phase.COMPLETED, "completed")
    assert hurried.entered(job) == ["collection"]
    assert (await hurried.client.post(f"/jobs/{other}/resume")).status_code == 409
    assert (await hurried.client.put(f"/jobs/{job}/matches/p/v", json=MATCH)).status_code == 409


async def test_a_failed_job_is_resumed_as_a_new_generation(hurried_everywhere: MatchingWorld) -> None:
    hurried = hurried_everywhere
    job = await hurried.open()
    await hurried.advance(job, Phase.FEATURE_EXTRACTION)
    await hurried.complete(job, *FOUR[:2])
    view = await failed(hurried, job, Phase.FEATURE_EXTRACTION)
    assert view["missing"] == list(FOUR[2:])
    # One of the missing ones came too late for the first generation; it counts for the next.
    await hurried.complete(job, FOUR[2])
    await hurried.drained()
    resumed = (await hurried.client.post(f"/jobs/{job}/resume")).json()
    assert (resumed["state"], resumed["phase"], resumed["generation"]) == ("running", "feature_extraction", 2)
    assert (resumed["missing"], resumed["waiting_for"]) == ([], [FOUR[3]])
    assert (await hurried.client.post(f"/jobs/{job}/resume")).status_code == 200
    await hurried.complete(job, FOUR[3])
    await hurried.reaches(job, Phase.MATCHING)
    await hurried.complete(job, *CLOSED_BY[Phase.MATCHING], *CLOSED_BY[Phase.EVIDENCE])
    await hurried.reaches(job, Phase.COMPLETED, "completed")
    await eventually(lambda: hurried.entered(job)[-1:] == ["completed"] or None, "the last announcement")
    assert hurried.entered(job) == ["collection", "feature_extraction", *ALL[1:]]
    told = [(each["phase"], each["generation"]) for each in hurried.announced if each["job_id"] == job]
    assert told[1:3] == [("feature_extraction", 1), ("feature_extraction", 2)]


async def test_a_resumed_job_may_fail_again_and_be_resumed_again(hurried: MatchingWorld) -> None:
    job = await hurried.open()
    for generation in (1, 2):
        view = await failed(hurried, job, Phase.COLLECTION)
        assert (view["generation"], view["missing"]) == (generation, [PRODUCTS_COLLECTED, VIDEOS_COLLECTED])
        assert (await hurried.client.post(f"/jobs/{job}/resume")).status_code == 200
    await hurried.complete(job, *COMPLETED)
    view = await hurried.reaches(job, Phase.COMPLETED, "completed")
    assert view["generation"] == 3
    assert [each["phase"] for each in view["phases"]] == ALL


async def test_those_who_resume_at_once_resume_once(hurried_everywhere: MatchingWorld) -> None:
    """Requests meet at one job, and so do the looks of every manager."""
    world = hurried_everywhere
    job, owed = await world.open(), await world.open()
    await failed(world, job, Phase.COLLECTION)
    await failed(world, owed, Phase.COLLECTION)
    answers = await asyncio.gather(*(world.client.post(f"/jobs/{job}/resume") for _ in range(6)))
    assert [answer.status_code for answer in answers] == [200] * 6
    engine = world.parts.engine
    await engine.wait(owed, timeout_s=30.0)
    await engine.run("job_resume", job=owed, generation=2, passage=2)
    managers = [Transitions(engine, lambda: datetime.now(UTC)) for _ in range(6)]
    await asyncio.gather(*(each.pay_owed() for each in managers))
    assert [(await world.view(each))["generation"] for each in (job, owed)] == [2, 2]
    assert (await engine.job(owed)).generation == 2


async def test_what_a_lost_process_owed_is_paid_by_another(hurried: MatchingWorld) -> None:
    """The row says resumed, or cancelled, and the process died before it told the engine."""
    resumed, cancelled = await hurried.open(), await hurried.open()
    await hurried.complete(cancelled, PRODUCTS_COLLECTED)
    await failed(hurried, resumed, Phase.COLLECTION)
    await hurried.parts.engine.run("job_resume", job=resumed, generation=2, passage=2)
    other = await hurried.open()
    await hurried.parts.engine.run("job_cancel", job=other, now=datetime.now(UTC))
    await hurried.complete(resumed, *COMPLETED)
    await hurried.reaches(resumed, Phase.COMPLETED, "completed")

    async def ended() -> object:
        return (await hurried.parts.engine.job(other)).state.value == "cancelled"

    await eventually(ended, "the engine's job cancelled")


MATCH = {"score": 0.9, "best_pair": {"img_id": "i", "frame_id": "f", "score_pair": 0.8}}
