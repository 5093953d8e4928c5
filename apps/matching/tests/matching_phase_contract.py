"""What every manager must do, asked of its parts without bus and HTTP; twins that lack a guard are noticed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import uuid_utils
from matching_content import EMBEDDING, keypoints
from prometheus_client import CollectorRegistry

import headrace
from headrace.blobs import Blobs
from headrace.errors import Conflict
from headrace.ports import Delivery, Event, JobState
from headrace_matching.assets.asset_store import AssetStore
from headrace_matching.assets.asset_values import NewAsset, pack_vector
from headrace_matching.events.names import (
    CLOSED_BY,
    COMPLETED,
    IMAGE_EMBEDDING_READY,
    PHASE_ENTERED,
    PRODUCTS_COLLECTED,
    AssetKind,
    Phase,
)
from headrace_matching.legacy.names import REPLACED
from headrace_matching.phases.flow import phase_flow
from headrace_matching.phases.intake import EventIntake, IntakeOptions
from headrace_matching.phases.jobs import JobOrder, Jobs
from headrace_matching.phases.metrics import EventMetrics
from headrace_matching.phases.transitions import Transitions

ORDER = JobOrder("x", {"type": "external"}, {"type": "external"})
ALL = [phase.value for phase in Phase]


def now() -> datetime:
    return datetime.now(UTC)


def uuid7() -> str:
    return str(uuid_utils.uuid7())


class GatedBlobs(Blobs):
    """Blobs that call back before they write: what happens meanwhile is up to the test."""

    meanwhile: Callable[[], Any] | None = None

    async def put(self, path: str, data: Any) -> None:
        if self.meanwhile is not None:
            await self.meanwhile()
        await super().put(path, data)


@dataclass(slots=True)
class PhaseParts:
    """The parts of a manager; a twin has another one in place of one of them."""

    engine: headrace.Engine
    blobs: GatedBlobs
    transitions: Transitions
    intake: EventIntake
    jobs: Jobs
    assets: AssetStore
    fence: int = field(default=0)

    async def open(self) -> str:
        return await self.jobs.open(ORDER, uuid7())

    async def handle(self, *messages: tuple[str, Any]) -> Sequence[object]:
        """What becomes of messages that come in one batch."""
        deliveries = []
        for name, document in messages:
            self.fence += 1
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            deliveries.append(Delivery("manager", self.fence, self.fence, Event(uuid7(), name, body)))
        return await self.intake.handle(deliveries)

    async def announced(self, job: str) -> list[str]:
        """What the outbox holds, in order."""
        batch = await self.engine.outbox.claim("test", 500, 0.001, (PHASE_ENTERED,))
        documents = [json.loads(event.body) for event in batch.events]
        await self.engine.outbox.release(batch.fence, [event.event_id for event in batch.events])
        return [document["phase"] for document in documents if document["job_id"] == job]

    async def phase(self, job: str) -> str:
        return str((await self.jobs.view(job))["phase"])


@asynccontextmanager
async def phase_parts(engine: headrace.Engine, blobs: GatedBlobs, **twins: type[Any]) -> AsyncIterator[PhaseParts]:
    """The parts on this engine, with a worker for the barriers."""
    transitions = twins.get("transitions", Transitions)(engine, now)
    flow = phase_flow(transitions)
    options, metrics = IntakeOptions(lookback_s=30.0), EventMetrics(CollectorRegistry())
    intake = twins.get("intake", EventIntake)(engine, options, metrics, now)
    async with engine.worker(flow):
        jobs, assets = Jobs(engine, flow, now), twins.get("assets", AssetStore)(engine, blobs)
        yield PhaseParts(engine, blobs, transitions, intake, jobs, assets)


def completed(job: str, *names: str) -> list[tuple[str, dict[str, str]]]:
    return [(name, {"job_id": job, "event_id": uuid7()}) for name in names]


class PhaseContract:
    """Asked of `parts`."""

    async def test_a_phase_is_announced_once_however_many_enter_it(self, parts: PhaseParts) -> None:
        job = await parts.open()
        entering = (parts.transitions.enter(job, Phase.FEATURE_EXTRACTION) for _ in range(8))
        await asyncio.gather(*entering)
        await parts.transitions.enter(job, Phase.FEATURE_EXTRACTION)
        assert await parts.announced(job) == ALL[:2]

    async def test_a_cancelled_job_enters_nothing(self, parts: PhaseParts) -> None:
        job = await parts.open()
        await parts.transitions.cancel(job)
        await parts.transitions.enter(job, Phase.FEATURE_EXTRACTION)
        assert (await parts.phase(job), await parts.announced(job)) == ("collection", ALL[:1])
        assert (await parts.engine.wait(job, timeout_s=60)).state is JobState.CANCELLED

    async def test_names_count_and_not_ids(self, parts: PhaseParts) -> None:
        job, other = await parts.open(), await parts.open()
        shared = uuid7()
        same = [(name, {"job_id": each, "event_id": shared}) for each in (job, other) for name in sorted(COMPLETED)]
        for message in same:
            assert list(await parts.handle(message)) == [None]
        for each in (job, other):
            view = await parts.jobs.view(each)
            assert (len(view["events"]), view["waiting_for"]) == (8, [])
            assert (await parts.engine.wait(each, timeout_s=60)).state is JobState.FINISHED
            assert await parts.phase(each) == "completed"
            assert await parts.announced(each) == ALL

    async def test_events_of_jobs_that_the_engine_forgot_are_counted_and_close_nothing(self, parts: PhaseParts) -> None:
        gone, job = uuid7(), await parts.open()
        await parts.engine.run("job_open", job=gone, seed=gone, wish=ORDER.wish, now=now())
        both = [message for each in (gone, job) for message in completed(each, *CLOSED_BY[Phase.COLLECTION])]
        assert list(await parts.handle(*both)) == [None] * 4
        assert len((await parts.jobs.view(gone))["events"]) == 2
        assert not await parts.engine.close_external(job, PRODUCTS_COLLECTED, uuid7()), "closed by the second try"

    async def test_a_second_event_of_a_name_closes_nothing(self, parts: PhaseParts) -> None:
        job = await parts.open()
        for _ in range(3):
            await parts.handle(*completed(job, PRODUCTS_COLLECTED, PRODUCTS_COLLECTED))
        view = await parts.jobs.view(job)
        assert (view["phase"], [each["duplicates"] for each in view["events"]]) == ("collection", [5])
        assert sum(each["times"] for each in await parts.jobs.duplicates(job)) == 5

    async def test_what_is_refused_is_answered_with_its_reason(self, parts: PhaseParts) -> None:
        job = await parts.open()
        bad: list[tuple[str, Any]] = [
            (PRODUCTS_COLLECTED, b"no json"),
            (PRODUCTS_COLLECTED, {"job_id": job}),
            (PRODUCTS_COLLECTED, {"job_id": job, "event_id": "7"}),
            *((name, {"job_id": job, "event_id": uuid7()}) for name in REPLACED),
        ]
        good = completed(job, PRODUCTS_COLLECTED)
        *refused, kept = await parts.handle(*bad, *good)
        assert [isinstance(answer, headrace.Dead) and bool(answer.reason) for answer in refused] == [True] * len(bad)
        assert kept is None

    async def test_a_stranger_waits_before_it_is_refused(self, parts: PhaseParts) -> None:
        early = (PRODUCTS_COLLECTED, {"job_id": "nobody", "event_id": uuid7()})
        for _ in range(3):
            (answer,) = await parts.handle(early)
            assert isinstance(answer, headrace.Snooze)
            assert 0 < answer.after_s <= 30.0

    async def test_the_window_begins_when_the_first_manager_sees_it(self, parts: PhaseParts) -> None:
        """Another process, or the same one after a restart, goes on with the same window."""
        early = (PRODUCTS_COLLECTED, {"job_id": "nobody", "event_id": uuid7()})
        await parts.handle(early)
        later = type(parts.intake)(
            parts.engine,
            IntakeOptions(lookback_s=30.0),
            EventMetrics(CollectorRegistry()),
            lambda: datetime.fromtimestamp(now().timestamp() + 31, UTC),
        )
        parts.intake = later
        (answer,) = await parts.handle(early)
        assert isinstance(answer, headrace.Dead)

    async def test_a_ready_asset_counts_once(self, parts: PhaseParts) -> None:
        job = await parts.open()
        ready = [
            (IMAGE_EMBEDDING_READY, {"job_id": job, "asset_id": f"a{number % 10}", "event_id": uuid7()})
            for number in range(30)
        ]
        await parts.handle(*ready)
        await parts.handle(*ready)
        assert (await parts.jobs.view(job))["tallies"]["image"]["embedding_ready"] == 10

    async def test_a_write_that_a_closing_phase_overtakes_is_refused(self, parts: PhaseParts) -> None:
        """It was begun while the phase was open; the row is written when it is closed."""
        job = await parts.open()
        asset = await parts.assets.add(job, NewAsset(AssetKind.IMAGE, "p", url="https://x.example/p"))

        async def close() -> None:
            parts.blobs.meanwhile = None
            await parts.handle(*completed(job, *CLOSED_BY[Phase.COLLECTION]))
            await parts.handle(*completed(job, *CLOSED_BY[Phase.FEATURE_EXTRACTION]))
            for phase in (Phase.FEATURE_EXTRACTION, Phase.MATCHING):
                await parts.transitions.enter(job, phase)

        parts.blobs.meanwhile = close
        document = json.dumps({name: keypoints()[name] for name in ("points", "descriptors")}).encode()
        outcome = await asyncio.gather(parts.assets.put_keypoints(job, asset, "orb", document), return_exceptions=True)
        assert isinstance(outcome[0], Conflict)
        assert json.loads(await parts.assets.keypoints(job, "", 10, None))["keypoints"] == []
        late = await asyncio.gather(
            parts.assets.put_embedding(job, asset, "m", pack_vector(EMBEDDING["vector"])),  # type: ignore[arg-type]
            return_exceptions=True,
        )
        assert isinstance(late[0], Conflict)
