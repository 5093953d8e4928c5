"""Jobs through their phases: each transition once, whatever is duplicated, reordered, or comes early."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime

from matching_world import MatchingWorld, opened_world, uuid7
from waiting import eventually

from headrace.ports import Event
from headrace_matching.events.names import (
    CLOSED_BY,
    COMPLETED,
    IMAGE_EMBEDDING_READY,
    MATCH_RESULT,
    PRODUCTS_COLLECTED,
    READY,
    VIDEOS_COLLECTED,
    Phase,
)
from headrace_matching.legacy.names import REPLACED
from headrace_matching.settings import MatchingSettings

ALL = [phase.value for phase in Phase]


async def told(world: MatchingWorld, job: str) -> list[str]:
    await eventually(lambda: world.entered(job)[-1:] == ["completed"] or None, "the last announcement")
    return world.entered(job)


async def test_a_job_goes_through_its_phases_in_order(world: MatchingWorld) -> None:
    job = await world.open()
    view = await world.view(job)
    assert (view["state"], view["phase"]) == ("running", "collection")
    assert view["waiting_for"] == [PRODUCTS_COLLECTED, VIDEOS_COLLECTED]
    for phase, names in CLOSED_BY.items():
        assert [each["phase"] for each in view["phases"]] == ALL[: ALL.index(phase) + 1]
        assert view["waiting_for"] == list(names)
        for number, name in enumerate(names, 1):
            await world.complete(job, name)
            await world.drained()
            view = await world.view(job)
            assert view["phase"] != phase or view["waiting_for"] == list(names[number:])
        view = await world.reaches(job, ALL[ALL.index(phase) + 1])
    assert (view["state"], view["waiting_for"]) == ("completed", [])
    assert await told(world, job) == ALL
    first = next(each for each in world.announced if each["phase"] == "collection")
    assert first["query"] == "red shoes"
    assert first["products"] == {"type": "external"}


async def test_every_event_five_times_in_any_order_is_one_transition_each(world: MatchingWorld) -> None:
    job = await world.open()
    chance = random.Random(7)
    events = [(name, {"job_id": job, "event_id": uuid7()}) for name in sorted(COMPLETED) for _ in range(2)]
    events += [(name, {"job_id": job, "asset_id": f"a{n}", "event_id": uuid7()}) for name in READY for n in range(20)]
    messages = events * 5
    chance.shuffle(messages)
    # Those of later phases first.
    messages.sort(key=lambda each: -max([n for n, names in enumerate(CLOSED_BY.values()) if each[0] in names] or [0]))
    await world.publish(*messages)
    view = await world.reaches(job, Phase.COMPLETED)
    await world.drained()
    assert await told(world, job) == ALL
    view = await world.view(job)
    assert [each["phase"] for each in view["phases"]] == ALL
    assert {each["name"]: each["duplicates"] for each in view["events"]} == dict.fromkeys(COMPLETED, 9)
    for kind in ("image", "keyframe"):
        assert view["tallies"][kind]["embedding_ready"] == view["tallies"][kind]["keypoint_ready"] == 20
    duplicates = (await world.client.get(f"/jobs/{job}/duplicates")).json()["duplicates"]
    assert sum(each["times"] for each in duplicates) == 9 * 8
    assert len({event["event_id"] for event in world.announced}) == 5


async def test_events_of_later_phases_are_remembered(world: MatchingWorld) -> None:
    job = await world.open()
    *early, last = [name for names in reversed(CLOSED_BY.values()) for name in names]
    await world.complete(job, *early)
    await world.drained()
    view = await world.view(job)
    assert (view["phase"], view["waiting_for"]) == ("collection", [last])
    await world.complete(job, last)
    await world.reaches(job, Phase.COMPLETED, "completed")
    assert await told(world, job) == ALL


async def test_a_second_event_of_a_name_is_a_duplicate_and_the_same_id_elsewhere_is_not(world: MatchingWorld) -> None:
    job, other = await world.open(), await world.open()
    shared = uuid7()
    await world.publish(
        (PRODUCTS_COLLECTED, {"job_id": job, "event_id": uuid7()}),
        (PRODUCTS_COLLECTED, {"job_id": job, "event_id": uuid7()}),
    )
    await world.drained()
    view = await world.view(job)
    assert (view["phase"], view["waiting_for"]) == ("collection", [VIDEOS_COLLECTED])
    await world.publish(
        *((name, {"job_id": each, "event_id": shared}) for each in (job, other) for name in CLOSED_BY[Phase.COLLECTION])
    )
    for each in (job, other):
        await world.reaches(each, Phase.FEATURE_EXTRACTION)


async def test_ready_events_feed_tallies_and_move_nothing(world: MatchingWorld) -> None:
    job = await world.open()
    await world.advance(job, Phase.FEATURE_EXTRACTION)
    names = [*READY, *READY]
    await world.publish(*((name, {"job_id": job, "asset_id": "a", "event_id": uuid7()}) for name in names))
    await world.drained()
    view = await world.view(job)
    assert view["phase"] == "feature_extraction"
    assert view["tallies"] == {
        kind: {"assets": 0, "embedding_ready": 1, "keypoint_ready": 1, "dead": 0} for kind in ("image", "keyframe")
    }


async def test_what_is_no_event_is_a_dead_letter_byte_for_byte(world: MatchingWorld) -> None:
    job = await world.open()
    good = {"job_id": job, "event_id": uuid7()}
    bad = {
        b'{"event_id": "%s" }' % uuid7().encode(): "job_id",
        json.dumps({"job_id": job}).encode(): "event_id",
        json.dumps({**good, "event_id": "018f4d3e-7a1b-4c2d-8e3f-123456789abc"}).encode(): "event_id",
        b"\xff\x00 not json": "JSON",
        b"": "JSON",
    }
    await world.publish(*((PRODUCTS_COLLECTED, body) for body in bad))
    await world.publish((IMAGE_EMBEDDING_READY, good), (MATCH_RESULT, good), *((name, good) for name in REPLACED))
    letters = await world.refused(len(bad) + 4)
    assert len(letters) == len(bad) + 4
    reasons = {body: reason for _, body, reason in letters}
    assert all(word in reasons[body] for body, word in bad.items())
    by_name = {name: reason for name, _, reason in letters}
    assert "asset_id" in by_name[IMAGE_EMBEDDING_READY]
    assert "product_id" in by_name[MATCH_RESULT]
    assert all(f"{name} is gone" in by_name[name] for name in REPLACED)
    await world.complete(job, *CLOSED_BY[Phase.COLLECTION])
    await world.reaches(job, Phase.FEATURE_EXTRACTION)


async def test_names_of_others_are_left(world: MatchingWorld) -> None:
    await world.publish(("weather.changed", b"rain"), ("image.embeddings.completed.v2", b"{}"))
    await world.drained()
    assert await world.dead() == []


async def test_after_a_cancel_nothing_moves_and_nothing_is_announced(world: MatchingWorld) -> None:
    job = await world.open()
    await world.advance(job, Phase.FEATURE_EXTRACTION)
    first = await world.client.post(f"/jobs/{job}/cancel")
    again = await world.client.post(f"/jobs/{job}/cancel")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["state"] == again.json()["state"] == "cancelled"
    await world.complete(job, *COMPLETED)
    await world.drained()
    view = await world.view(job)
    assert (view["state"], view["phase"], view["waiting_for"]) == ("cancelled", "feature_extraction", [])
    other = await world.open()
    await world.advance(other, Phase.COMPLETED)
    assert await told(world, other) == ALL
    assert world.entered(job) == ALL[:2]
    assert (await world.client.post(f"/jobs/{other}/cancel")).status_code == 409
    assert (await world.parts.engine.job(job)).state.value == "cancelled"


async def test_after_the_end_events_change_nothing(world: MatchingWorld) -> None:
    job = await world.open()
    await world.advance(job, Phase.COMPLETED)
    before = await world.view(job)
    await world.complete(job, *COMPLETED)
    await world.drained()
    after = await world.view(job)
    for view in (before, after):
        view.pop("events")
    assert after == before
    assert await told(world, job) == ALL


async def test_an_unknown_job_is_refused_after_its_window(settings: MatchingSettings) -> None:
    async with opened_world(replace(settings, lookback_s=1.0)) as world:
        began = time.monotonic()
        bodies = [json.dumps({"job_id": "nobody", "asset_id": "a", "event_id": uuid7()}).encode() for _ in range(2)]
        await world.publish((PRODUCTS_COLLECTED, bodies[0]), (IMAGE_EMBEDDING_READY, bodies[1]))
        letters = await world.refused(2)
        assert time.monotonic() - began >= 1.0
        assert {body for _, body, _ in letters} == set(bodies)
        assert all("there is no job nobody" in reason for _, _, reason in letters)


async def test_an_event_that_comes_before_its_job_is_counted_when_the_job_is_there(world: MatchingWorld) -> None:
    engine = world.parts.engine
    async with engine.transaction() as tx:
        job = tx.submit(world.service.flow, None).job
        await world.complete(job, PRODUCTS_COLLECTED)
        await world.drained()
        wish = {"query": 1, "products": {}, "videos": {}}
        tx.run("job_open", job=job, seed=uuid7(), wish=wish, now=datetime.now(UTC))

    async def counted() -> object:
        return (await world.view(job))["waiting_for"] == [VIDEOS_COLLECTED]

    await eventually(counted, "the event that waited")
    assert await world.dead() == []


async def test_many_unknown_jobs_hold_up_nobody(world: MatchingWorld) -> None:
    about = {"asset_id": "a", "event_id": uuid7()}
    await world.publish(*((name, {"job_id": f"j{number}", **about}) for name in READY for number in range(600)))
    job = await world.open()
    await world.advance(job, Phase.COMPLETED)
    assert await told(world, job) == ALL


async def test_the_bus_of_the_store_knows_a_repeat(world: MatchingWorld) -> None:
    """And the manager does not depend on it: what it counts is names."""
    job = await world.open()
    body = json.dumps({"job_id": job, "event_id": uuid7()}).encode()
    for name in (PRODUCTS_COLLECTED, VIDEOS_COLLECTED):
        for number in range(3):
            await world.parts.bus.publish([Event(f"{job}-{name}-{number % 2}", name, body)])
    await world.reaches(job, Phase.FEATURE_EXTRACTION)
