"""The Main API and phase manager, as one service. Any number may run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from fastapi import APIRouter

from headrace.consuming import Consumer, ConsumerOptions, Subscription
from headrace.http import Limits
from headrace.services import Service
from headrace.tables import RequestKeys
from headrace_matching.api.asset_routes import asset_routes
from headrace_matching.api.desk import ApiDesk
from headrace_matching.api.job_routes import job_routes
from headrace_matching.assets.asset_store import CONTENT_BYTES_MAX, AssetStore
from headrace_matching.assets.match_store import MatchStore
from headrace_matching.events.names import PHASE_ENTERED
from headrace_matching.parts import MatchingParts
from headrace_matching.phases.flow import phase_flow
from headrace_matching.phases.intake import EventIntake, IntakeOptions
from headrace_matching.phases.jobs import Jobs
from headrace_matching.phases.metrics import EventMetrics
from headrace_matching.phases.sweep import Sweep
from headrace_matching.phases.transitions import Transitions

QUEUE = "matching.manager"
BATCH_MAX = 1_000
LANES = 2


def now() -> datetime:
    return datetime.now(UTC)


class ApiService(Service):
    """Routes, the consumer of all events, the barriers, and the announcements."""

    name = "api"
    limits = Limits(body_bytes_max=CONTENT_BYTES_MAX, body_s_max=60.0)

    def __init__(self, parts: MatchingParts, transitions: type[Transitions] = Transitions) -> None:
        self.matching = parts
        settings, engine = parts.settings, parts.engine
        self.parts, self.registry, self.idempotency = parts.by_name, parts.registry, RequestKeys(engine)
        self.transitions = transitions(engine, now)
        self.flow = phase_flow(self.transitions, settings.phase_deadline_s)
        self.jobs = Jobs(engine, self.flow, now)
        self.intake = EventIntake(
            engine,
            IntakeOptions(settings.lookback_s, settings.any_event_ids),
            EventMetrics(parts.registry),
            now,
        )
        self.consumer = Consumer(
            parts.bus,
            # Everything: so no old name is ever bound, and one that still comes is found.
            Subscription(QUEUE, ("#",)),
            self.intake.handle,
            ConsumerOptions(batch_max=BATCH_MAX, lanes=LANES),
        )

    async def prepare(self) -> None:
        await self.consumer.prepare()

    def routes(self) -> Sequence[APIRouter]:
        parts = self.matching
        desk = ApiDesk(
            parts.settings,
            self.jobs,
            self.transitions,
            AssetStore(parts.engine, parts.blobs),
            MatchStore(parts.engine, parts.blobs),
        )
        return [*job_routes(desk), *asset_routes(desk)]

    async def run(self, stop: asyncio.Event) -> None:
        engine = self.matching.engine
        async with (
            engine.worker(self.flow),
            engine.relay(self.matching.bus, topics=(PHASE_ENTERED,)),
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self.consumer.run(stop))
            group.create_task(Sweep(engine, self.transitions, self.matching.settings.lookback_s).run(stop))
