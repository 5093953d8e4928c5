"""Jobs as people order and see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import headrace
from headrace.errors import Conflict, NotFound
from headrace.http import decode_cursor, encode_cursor, paged
from headrace_matching.events.messages import new_event_id, phase_entered
from headrace_matching.events.names import CLOSED_BY, READY, AssetKind, Phase
from headrace_matching.phases.flow import KEEP_S
from headrace_matching.phases.transitions import FAILED, RUNNING

DUPLICATES_SHOWN = 100
_LATEST = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JobOrder:
    """What to look for, and where products and videos come from."""

    query: Any
    products: Mapping[str, Any]
    videos: Mapping[str, Any]

    @property
    def wish(self) -> dict[str, Any]:
        """As it is kept, and announced to collectors."""
        return {"query": self.query, "products": self.products, "videos": self.videos}


class Jobs:
    """Opens jobs and shows them. `flow` is what each of them passes through."""

    def __init__(self, engine: headrace.Engine, flow: headrace.Flow, now: Callable[[], datetime]) -> None:
        self._engine, self._flow, self._now = engine, flow, now

    async def open(self, order: JobOrder, seed: str) -> str:
        """A job in its first phase, which is announced with it; the same seed is the same job."""
        found = await self._engine.one("job_of_seed", seed=seed)
        if found is not None:
            return str(found[0])
        event_id, now = new_event_id(), self._now()
        try:
            async with self._engine.transaction() as tx:
                job = tx.submit(self._flow, None, keep_s=KEEP_S).job
                tx.run("job_open", expect=1, job=job, seed=seed, wish=order.wish, now=now)
                tx.run("phase_enter", job=job, generation=1, phase=Phase.COLLECTION.value, event_id=event_id, now=now)
                tx.publish(phase_entered(job, Phase.COLLECTION, event_id, {"generation": 1, **order.wish}))
        except Conflict:
            # The same request at the same time was quicker.
            return await self.open(order, seed)
        return job

    async def known(self, job: str) -> None:
        """`NotFound` if there is no such job."""
        await self._standing(job)

    async def view(self, job: str) -> dict[str, Any]:
        """Where a job is, and what it waits for."""
        row = await self._standing(job)
        _, state, phase, generation, wish, missing, created_at, ended_at = row
        completed = await self._engine.rows("completed_of", job=job)
        waits = CLOSED_BY.get(Phase(phase), ()) if state in (RUNNING, FAILED) else ()
        came = {str(name) for name, *_ in completed}
        return {
            "job_id": job,
            "state": state,
            "phase": phase,
            "generation": generation,
            "waiting_for": [name for name in waits if name not in came],
            "missing": missing,
            "tallies": await self._tallies(job),
            "phases": await self._phases(job),
            "events": [
                {"name": name, "event_id": event_id, "first_seen": _time(seen), "duplicates": duplicates}
                for name, event_id, seen, duplicates in completed
            ],
            **wish,
            "created_at": _time(created_at),
            "ended_at": _time(ended_at),
        }

    async def newest(self, limit: int, cursor: str | None, state: str, phase: str) -> dict[str, Any]:
        """Jobs, newest first."""
        before, before_job = _LATEST, ""
        if cursor is not None:
            before, before_job = decode_cursor(cursor, datetime, str)
        rows = await self._engine.rows(
            "jobs_newest", state=state, phase=phase, before=before, before_job=before_job, limit=limit + 1
        )
        page, following = paged(rows, limit, lambda row: encode_cursor(_time(row[4]) or "", row[0]))
        shown = [
            {
                "job_id": job,
                "state": state,
                "phase": phase,
                "query": wish["query"],
                "created_at": _time(created_at),
                "ended_at": _time(ended_at),
            }
            for job, state, phase, wish, created_at, ended_at in page
        ]
        return {"jobs": shown, "next": following}

    async def duplicates(self, job: str) -> list[dict[str, Any]]:
        """Events that were dropped because their name had come, newest first."""
        await self.known(job)
        rows = await self._engine.rows("duplicates_of", job=job, limit=DUPLICATES_SHOWN)
        return [
            {"name": name, "event_id": event_id, "first_seen": _time(seen), "times": times}
            for name, event_id, seen, times in rows
        ]

    async def _standing(self, job: str) -> tuple[Any, ...]:
        row = await self._engine.one("job", job=job)
        if row is None:
            raise NotFound(f"there is no job {job[:200]}")
        return tuple(row)

    async def _phases(self, job: str) -> list[dict[str, Any]]:
        """Each phase as it was first entered."""
        shown: dict[str, dict[str, Any]] = {}
        for phase, _, _, entered_at in await self._engine.rows("phases_of", job=job):
            shown.setdefault(str(phase), {"phase": phase, "entered_at": _time(entered_at)})
        return list(shown.values())

    async def _tallies(self, job: str) -> dict[str, dict[str, int]]:
        shown = {kind.value: {"assets": 0, "embedding_ready": 0, "keypoint_ready": 0, "dead": 0} for kind in AssetKind}
        for kind, assets, dead in await self._engine.rows("assets_counted", job=job):
            shown[str(kind)] |= {"assets": assets, "dead": dead}
        for name, count in await self._engine.rows("tallies_of", job=job):
            meaning = READY[str(name)]
            shown[meaning.kind][f"{meaning.feature}_ready"] = count
        return shown


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
