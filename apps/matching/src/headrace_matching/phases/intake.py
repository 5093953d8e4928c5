"""Events from the bus: each is judged, written down, counted, and told to the engine.

A batch is one unit of work. Several messages of one name and job, in one batch or in many, are one event and its
duplicates: names count, not ids. What is refused goes to the dead letters with its reason; what speaks of a job that is
not known waits on the bus for a while, because the job may be about to be committed.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import structlog

import headrace
from headrace.errors import NotFound
from headrace.ports import Delivery
from headrace_matching.events.messages import is_uuid7, new_event_id, read
from headrace_matching.events.names import COMPLETED, NAMES, READY
from headrace_matching.events.schemas import EventSchemas, MalformedEvent
from headrace_matching.legacy.names import refusal
from headrace_matching.phases.metrics import EventMetrics

KNOWN_MAX = 100_000
DUPLICATES_MAX = 100
"""Of one name of one job, so many event ids are kept; all are counted."""
LOOK_S_MIN = 0.1
"""How soon a message for an unknown job is looked at again; then after as long as it has waited by now."""
Answer = headrace.Dead | headrace.Snooze | None
log = structlog.get_logger("matching")


@dataclass(slots=True)
class _Sorted:
    """A batch, by what is to be done with it: indexes of its deliveries, and what they say."""

    answers: list[Answer]
    completed: list[tuple[int, str, str, str]] = field(default_factory=list)
    """index, job, name, event id"""
    ready: list[tuple[int, str, str, str]] = field(default_factory=list)
    """index, job, name, asset"""

    @property
    def told(self) -> Iterable[tuple[int, str, str, str]]:
        return (*self.completed, *self.ready)


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """`lookback_s`: how long an event for an unknown job waits. `any_ids`: ids of other UUIDs are taken too."""

    lookback_s: float = 30.0
    any_ids: bool = False


class EventIntake:
    """The handler of the manager's queue. It bears repeats, and any number may run."""

    def __init__(
        self, engine: headrace.Engine, options: IntakeOptions, metrics: EventMetrics, now: Callable[[], datetime]
    ) -> None:
        self._engine, self._options, self._metrics, self._now = engine, options, metrics, now
        self._schemas = EventSchemas(options.any_ids)
        self._known: OrderedDict[str, None] = OrderedDict()

    async def handle(self, deliveries: Sequence[Delivery]) -> Sequence[Answer]:
        """What becomes of each message; those without an answer are done when this returns."""
        batch = self._sorted(deliveries)
        strangers = await self._strangers({job for _, job, _, _ in batch.told})
        if strangers:
            await self._hold(deliveries, batch, strangers)
        await self._write(batch)
        self._metrics.handled([delivery.event.topic for delivery in deliveries])
        return batch.answers

    def _sorted(self, deliveries: Sequence[Delivery]) -> _Sorted:
        batch = _Sorted([None] * len(deliveries))
        for index, delivery in enumerate(deliveries):
            name = delivery.event.topic
            try:
                document = self._read(name, delivery.event.body)
            except MalformedEvent as error:
                batch.answers[index] = headrace.Dead(str(error))
                self._metrics.refused(name)
                continue
            if document is None:
                continue
            if name in COMPLETED:
                batch.completed.append((index, document["job_id"], name, document["event_id"]))
            elif name in READY:
                batch.ready.append((index, document["job_id"], name, document["asset_id"]))
        return batch

    def _read(self, name: str, body: bytes) -> dict[str, Any] | None:
        """None: a name that is not ours to judge."""
        if reason := refusal(name):
            raise MalformedEvent(reason)
        if name not in NAMES:
            log.info("event.unknown", name=name[:200])
            return None
        document = read(name, body, self._schemas)
        if self._options.any_ids and not is_uuid7(document["event_id"]):
            log.warning("event.id_is_no_uuid7", name=name, event_id=document["event_id"])
            self._metrics.foreign_id(name)
        return document

    async def _strangers(self, jobs: set[str]) -> set[str]:
        """Those that are not known. A job that was known once is not asked for again: that is a round trip less."""
        asked = tuple(sorted(job for job in jobs if job not in self._known))
        if not asked:
            return set()
        found = {str(job) for (job,) in await self._engine.rows("jobs_known", jobs=asked)}
        self._known.update(dict.fromkeys(found))
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return set(asked) - found

    async def _hold(self, deliveries: Sequence[Delivery], batch: _Sorted, strangers: set[str]) -> None:
        """Messages for unknown jobs wait, or have waited long enough."""
        waiting = {index: digest(deliveries[index]) for index, job, _, _ in batch.told if job in strangers}
        now = self._now()
        rows = await self._engine.run("unknown_add", digests=tuple(sorted(set(waiting.values()))), now=now)
        since = {str(name): seen for name, seen in rows}
        for index, job, name, _ in list(batch.told):
            if index not in waiting:
                continue
            waited_s = (now - since[waiting[index]]).total_seconds()
            left_s = self._options.lookback_s - waited_s
            if left_s > 0:
                batch.answers[index] = headrace.Snooze(min(left_s, max(LOOK_S_MIN, waited_s)))
            else:
                reason = f"there is no job {job}, after MATCHING_LOOKBACK_S = {self._options.lookback_s:g} s"
                batch.answers[index] = headrace.Dead(reason)
                self._metrics.refused(name)
        batch.completed = [told for told in batch.completed if told[1] not in strangers]
        batch.ready = [told for told in batch.ready if told[1] not in strangers]

    async def _write(self, batch: _Sorted) -> None:
        """One unit. What comes for a job that has ended closes nothing; the engine may even have forgotten it."""
        if not (batch.completed or batch.ready):
            return
        moving = {job for _, job, _, _ in batch.completed}
        try:
            await self._write_once(batch, moving)
        except NotFound:
            await self._write_once(batch, {job for job in moving if await self._is_kept(job)})

    async def _write_once(self, batch: _Sorted, moving: set[str]) -> None:
        now, unit = self._now(), new_event_id()
        async with self._engine.transaction() as tx:
            if batch.completed:
                told = [
                    {"job": job, "name": name, "event_id": event_id, "number": number}
                    for number, (_, job, name, event_id) in enumerate(batch.completed)
                ]
                tx.run("completed_add", told=told, now=now, unit=unit)
                tx.run("duplicates_add", told=told, now=now, unit=unit, most=DUPLICATES_MAX)
            if batch.ready:
                jobs, names, assets = zip(*((job, name, asset) for _, job, name, asset in batch.ready), strict=True)
                tx.run("ready_add", jobs=jobs, names=names, assets=assets)
            closing = {(job, name): event_id for _, job, name, event_id in reversed(batch.completed)}
            for (job, name), event_id in sorted(closing.items()):
                if job in moving:
                    tx.close_external(job, name, event_id)

    async def _is_kept(self, job: str) -> bool:
        try:
            await self._engine.job(job)
        except NotFound:
            return False
        return True


def digest(delivery: Delivery) -> str:
    """What a message is known by while it waits: a bus may give it another id when it comes again."""
    event = delivery.event
    return hashlib.blake2b(f"{event.topic}\0".encode() + event.body, digest_size=16).hexdigest()
