"""The contract of a manager's parts on both stores, and broken twins that it must notice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uuid_utils
from matching_phase_contract import GatedBlobs, PhaseContract, PhaseParts, phase_parts
from prometheus_client import CollectorRegistry
from waiting import eventually

import headrace
from headrace.errors import Conflict
from headrace.ports import Delivery
from headrace.testing.twins import turns_red
from headrace_matching.assets.asset_store import AssetStore
from headrace_matching.assets.asset_values import NewAsset, pack_vector
from headrace_matching.events.messages import new_event_id, phase_entered
from headrace_matching.events.names import PRODUCTS_COLLECTED, VIDEOS_COLLECTED, AssetKind, Phase
from headrace_matching.parts import TABLES
from headrace_matching.phases.intake import EventIntake, IntakeOptions
from headrace_matching.phases.metrics import EventMetrics
from headrace_matching.phases.transitions import RANKS, Transitions


@pytest.fixture
async def blobs(tmp_path: Path) -> GatedBlobs:
    made = GatedBlobs((tmp_path / "blobs").as_uri(), {}, setting="MATCHING_S3_URL")
    await made.prepare()
    return made


@pytest.fixture
async def sqlite_engine(tmp_path: Path) -> AsyncIterator[headrace.Engine]:
    async with headrace.connect(f"sqlite:///{tmp_path / 'matching.db'}", tables=TABLES) as engine:
        yield engine


class TestSqlitePhases(PhaseContract):
    @pytest.fixture
    async def parts(self, sqlite_engine: headrace.Engine, blobs: GatedBlobs) -> AsyncIterator[PhaseParts]:
        async with phase_parts(sqlite_engine, blobs) as opened:
            yield opened


class TestPostgresPhases(PhaseContract):
    @pytest.fixture
    async def parts(self, matching_database: str, blobs: GatedBlobs) -> AsyncIterator[PhaseParts]:
        async with headrace.connect(matching_database, tables=TABLES) as engine, phase_parts(engine, blobs) as opened:
            yield opened

    async def test_a_write_waits_for_a_phase_that_closes_at_this_moment(
        self, parts: PhaseParts, matching_database: str
    ) -> None:
        """Whoever closes it has not committed yet: without a lock the write would be there after the phase."""
        job = await parts.open()
        asset = await parts.assets.add(job, NewAsset(AssetKind.IMAGE, "p", url="https://x.example/p"))
        with psycopg.connect(matching_database) as closing:
            closing.execute("UPDATE matching_job SET rank = 2, phase = 'matching' WHERE job_id = %s", (job,))
            writing = asyncio.ensure_future(parts.assets.put_embedding(job, asset, "m", pack_vector([1.0])))
            await _waits_for_a_lock(matching_database)
            assert not writing.done()
            closing.commit()
        outcome = await asyncio.gather(writing, return_exceptions=True)
        assert isinstance(outcome[0], Conflict)
        assert (await parts.assets.embeddings(job, "", 10, None))["embeddings"] == []


async def _waits_for_a_lock(url: str) -> None:
    def waiting() -> bool:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ).fetchone()
        return bool(row and row[0])

    await eventually(waiting, "a write that waits for the phase")


# Twins: each lacks one guard.


class AnnouncesOutside(Transitions):
    """The event is committed by itself, before the phase."""

    async def enter(self, job: str, phase: Phase) -> None:
        await self._engine.outbox.add([phase_entered(job, phase, new_event_id(), {})])
        await super().enter(job, phase)


class EntersWithoutInsisting(Transitions):
    """The phase is read, and written whatever became of it since."""

    async def enter(self, job: str, phase: Phase) -> None:
        state, rank, generation, _ = await self._standing(job)
        if state != "running" or rank >= RANKS[phase]:
            return
        about = {"job": job, "phase": phase.value, "generation": generation, "now": self._now()}
        async with self._engine.transaction() as tx:
            tx.run("job_advance", rank=RANKS[phase], ends=phase is Phase.COMPLETED, **about)
            tx.publish(phase_entered(job, phase, new_event_id(), {}))


class EntersCancelledJobs(Transitions):
    async def enter(self, job: str, phase: Phase) -> None:
        await self._engine.outbox.add([phase_entered(job, phase, f"{job[:-1]}{RANKS[phase]}", {})])


class CountsIds(EventIntake):
    """A message whose `event_id` was seen is a repeat, whatever its name and job."""

    def __init__(self, *values: Any) -> None:
        super().__init__(*values)
        self._seen: set[str] = set()

    async def handle(self, deliveries: Sequence[Delivery]) -> Sequence[Any]:
        fresh = []
        for delivery in deliveries:
            event_id = json.loads(delivery.event.body)["event_id"]
            if event_id not in self._seen:
                self._seen.add(event_id)
                fresh.append(delivery)
        await super().handle(fresh)
        return [None] * len(deliveries)


class DropsRefusals(EventIntake):
    async def handle(self, deliveries: Sequence[Delivery]) -> Sequence[Any]:
        answers = await super().handle(deliveries)
        return [None if isinstance(answer, headrace.Dead) else answer for answer in answers]


class RefusesStrangersAtOnce(EventIntake):
    async def handle(self, deliveries: Sequence[Delivery]) -> Sequence[Any]:
        answers = await super().handle(deliveries)
        return [headrace.Dead("no such job") if isinstance(answer, headrace.Snooze) else answer for answer in answers]


class ForgetsTheWindow(EventIntake):
    """When a message was first seen is known to this process alone."""

    async def _hold(self, deliveries: Sequence[Delivery], batch: Any, strangers: set[str]) -> None:
        seen: datetime = self._now()
        self._now, clock = (lambda: seen), self._now
        await self._engine.run("unknown_sweep", before=datetime.fromtimestamp(seen.timestamp() + 3_600, seen.tzinfo))
        await super()._hold(deliveries, batch, strangers)
        self._now = clock


class ChecksBefore(AssetStore):
    """The phase is looked at, and then the row is written whatever became of it."""

    async def put_keypoints(self, job: str, asset: str, model: str, document: bytes) -> None:
        await self.check_open(job, Phase.FEATURE_EXTRACTION)
        await self._blobs.put("keypoints/any", document)
        await self._engine.run("keypoints_put", job=job, asset=asset, model=model, sha256="0" * 64, rank=99)


@dataclass(frozen=True, slots=True)
class _Twin:
    part: str
    kind: type[Any]
    noticed_by: Callable[..., Awaitable[None]]


TWINS = {
    "a phase announced outside of its transaction": _Twin(
        "transitions", AnnouncesOutside, PhaseContract.test_a_phase_is_announced_once_however_many_enter_it
    ),
    "a phase entered without insisting on the one before": _Twin(
        "transitions", EntersWithoutInsisting, PhaseContract.test_a_phase_is_announced_once_however_many_enter_it
    ),
    "a cancelled job that goes on": _Twin(
        "transitions", EntersCancelledJobs, PhaseContract.test_a_cancelled_job_enters_nothing
    ),
    "ids that count instead of names": _Twin("intake", CountsIds, PhaseContract.test_names_count_and_not_ids),
    "a refusal that is dropped": _Twin(
        "intake", DropsRefusals, PhaseContract.test_what_is_refused_is_answered_with_its_reason
    ),
    "strangers refused at once": _Twin(
        "intake", RefusesStrangersAtOnce, PhaseContract.test_a_stranger_waits_before_it_is_refused
    ),
    "a window that begins anew with each process": _Twin(
        "intake", ForgetsTheWindow, PhaseContract.test_the_window_begins_when_the_first_manager_sees_it
    ),
    "a write checked before its transaction": _Twin(
        "assets", ChecksBefore, PhaseContract.test_a_write_that_a_closing_phase_overtakes_is_refused
    ),
}


@pytest.mark.parametrize("bug", TWINS)
async def test_a_broken_twin_is_noticed(sqlite_engine: headrace.Engine, blobs: GatedBlobs, bug: str) -> None:
    twin = TWINS[bug]
    async with phase_parts(sqlite_engine, blobs, **{twin.part: twin.kind}) as parts:
        await turns_red(twin.noticed_by, parts=parts)


async def test_other_uuids_are_taken_where_they_are_allowed(sqlite_engine: headrace.Engine, blobs: GatedBlobs) -> None:
    registry = CollectorRegistry()
    async with phase_parts(sqlite_engine, blobs) as parts:
        job = await parts.open()
        old = (PRODUCTS_COLLECTED, {"job_id": job, "event_id": str(uuid_utils.uuid4())})
        assert isinstance((await parts.handle(old))[0], headrace.Dead)
        options = IntakeOptions(any_ids=True)
        parts.intake = EventIntake(sqlite_engine, options, EventMetrics(registry), lambda: datetime.now(UTC))
        assert (await parts.handle(old))[0] is None
        assert (await parts.jobs.view(job))["waiting_for"] == [VIDEOS_COLLECTED]
        worse = (VIDEOS_COLLECTED, {"job_id": job, "event_id": "evt-7"})
        assert isinstance((await parts.handle(worse))[0], headrace.Dead)
    warned = registry.get_sample_value("headrace_matching_foreign_ids_total", {"name": PRODUCTS_COLLECTED})
    assert warned == 1
