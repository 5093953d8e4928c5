"""The whole service in an embedded world: it consumes, counts, tells, stops when it is asked to, and has metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from smap_analytics_desk import Desk, good, open_desk, topics
from smap_posts import PROJECT, delivery, message, post
from waiting import eventually

from headrace.core.parcels import PAYLOAD_BYTES_MAX
from headrace.errors import CallerError
from headrace.ports import Event
from headrace_smap.analytics.limits import AnalyticsLimits
from headrace_smap.analytics.service import AnalyticsService
from headrace_smap.envelope import ANALYSIS_FINISHED, DATA_COLLECTED, JOB_COMPLETED
from headrace_smap.settings import SmapSettings

END_S_MAX = 120.0


@asynccontextmanager
async def running(desk: Desk) -> AsyncIterator[AnalyticsService]:
    service, stop = AnalyticsService(desk.parts), asyncio.Event()
    await service.prepare()
    task = asyncio.create_task(service.run(stop))
    try:
        yield service
    finally:
        stop.set()
        await asyncio.wait_for(task, END_S_MAX)


async def publish(desk: Desk) -> None:
    events = [Event(f"evt_{path}", DATA_COLLECTED, message(path)) for path in desk.paths]
    await desk.parts.bus.publish(events)


def sample(desk: Desk, name: str, **labels: str) -> float:
    return desk.parts.registry.get_sample_value(f"headrace_smap_{name}", labels) or 0.0


async def test_posts_become_results_with_the_real_modules_in_a_child(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk, running(desk):
        complaint = post(id="angry", text="Xe quá tệ, pin hỏng sau một tuần, thất vọng!")
        await desk.store(**good(5), angry=complaint, bad=b"{")
        await desk.seal()
        await publish(desk)

        async def ended() -> bool:
            return (await desk.progress())[0] == "DONE" and sample(desk, "posts_total", outcome="done") == 6

        await eventually(ended, "the project ends", END_S_MAX)
        assert await desk.progress() == ("DONE", 7, 7, 1)
        told = {event.event_id: event for event in await desk.told()}
        assert topics(list(told.values())) == {ANALYSIS_FINISHED: 6, JOB_COMPLETED: 1}
        assert any(b'"sentiment":"negative"' in event.body for event in told.values())
        assert sample(desk, "posts_total", outcome="failed") == 1
        assert sample(desk, "post_errors_total", rule="blob_truncated") == 1
        assert sample(desk, "batch_seconds_count") >= 1


async def test_what_is_in_the_queue_when_it_stops_is_there_for_the_next(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(**good(3))
        await desk.seal()
        async with running(desk):
            pass
        await publish(desk)
        fresh = Desk(replace(desk.parts, registry=type(desk.parts.registry)()), desk.paths)
        async with running(fresh):
            await eventually(lambda: _is_done(desk), "the next one finds them", END_S_MAX)


async def _is_done(desk: Desk) -> bool:
    return (await desk.progress())[0] == "DONE"


@pytest.mark.parametrize(("name", "value"), [("SMAP_MODULES", "prepare,psychic"), ("SMAP_MODELS", "psychic.model")])
async def test_a_module_or_model_that_is_not_there_is_refused_at_the_start(
    embedded: SmapSettings, name: str, value: str
) -> None:
    environment = {**embedded.environment, name: value}
    async with open_desk(replace(embedded, environment=environment)) as desk:
        with pytest.raises(CallerError, match="psychic"):
            AnalyticsService(desk.parts)


@pytest.mark.parametrize(
    ("name", "value"), [("SMAP_POST_S_MAX", "0"), ("SMAP_ANALYSTS", "-1"), ("SMAP_FETCHES", "many")]
)
def test_a_limit_that_cannot_work_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(CallerError, match=name):
        AnalyticsLimits.read({name: value})


async def test_a_letter_that_the_bus_does_not_take_does_not_keep_the_post_from_being_counted(
    embedded: SmapSettings,
) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(fine=post(), bad=b"{")
        await desk.seal()
        swollen = message("raw/bad.json", padding="x" * PAYLOAD_BYTES_MAX)
        desk.paths.append("raw/missing.json")
        await desk.handler().handle([*desk.deliveries(["raw/fine.json", "raw/missing.json"]), delivery(swollen, 9)])
        assert await desk.rules() == {"raw/bad.json": "blob_truncated", "raw/missing.json": "blob_missing"}
        assert [letter.headers["path"] for letter in await desk.letters()] == ["raw/missing.json"]


class Confused:
    """Blobs with a fault of its own for one path."""

    def __init__(self, blobs: object) -> None:
        self._blobs = blobs

    def __getattr__(self, name: str) -> object:
        return getattr(self._blobs, name)

    async def get(self, path: str, bytes_max: int) -> bytes:
        if "odd" in path:
            raise KeyError(path)
        found: bytes = await self._blobs.get(path, bytes_max)  # type: ignore[attr-defined]
        return found


async def test_what_nobody_expected_is_the_fault_of_the_post_that_is_alone_with_it(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(fine=post(), odd=post())
        await desk.seal()
        handler = desk.handler(blobs=Confused(desk.parts.blobs))
        with pytest.raises(KeyError):
            await handler.handle(desk.deliveries())
        # As the consumer does then: each by itself.
        for each in desk.deliveries():
            await handler.handle([each])
        assert await desk.rules() == {"raw/odd.json": "unexpected"}
        assert await desk.progress() == ("DONE", 2, 2, 1)
        (letter,) = await desk.letters()
        assert (letter.headers["exception"], letter.headers["project"]) == ("KeyError", PROJECT)
