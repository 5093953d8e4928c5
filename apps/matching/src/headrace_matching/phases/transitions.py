"""What moves a job: entering a phase, missing it, cancel and resume.

Each is one unit of work that insists on what it was decided on, so of several processes one does it. The row, the phase
and its announcement are one commit. What the engine must do besides is owed in the row until it is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeVar

import structlog

import headrace
from headrace.errors import Conflict, NotFound
from headrace.ports import DeadFilter, JobState
from headrace_matching.events.messages import new_event_id, phase_entered
from headrace_matching.events.names import Phase
from headrace_matching.phases.flow import FLOW

RUNNING, COMPLETED, FAILED, CANCELLED = "running", "completed", "failed", "cancelled"
OWED_MAX = 100
LETTERS_MAX = 100
ENDING_S_MAX = 10.0
"""A job that has failed ends in the engine within moments."""
T = TypeVar("T")
WORKER_LOST = "worker_lost"
RANKS: Mapping[Phase, int] = {phase: rank for rank, phase in enumerate(Phase)}
log = structlog.get_logger("matching")


class Transitions:
    """Moves jobs of one store. Any number may do so at once."""

    def __init__(self, engine: headrace.Engine, now: Callable[[], datetime]) -> None:
        self._engine, self._now = engine, now

    async def enter(self, job: str, phase: Phase) -> None:
        """Enter a phase and announce it, once; nothing if it was entered, or if the job does not run any more."""

        async def attempt() -> None:
            state, rank, generation, _ = await self._standing(job)
            if state != RUNNING or rank >= RANKS[phase]:
                return
            event_id, now = new_event_id(), self._now()
            about = {"job": job, "phase": phase.value, "generation": generation, "now": now}
            async with self._engine.transaction() as tx:
                tx.run("job_advance", expect=1, rank=RANKS[phase], ends=phase is Phase.COMPLETED, **about)
                tx.run("phase_enter", expect=1, event_id=event_id, **about)
                tx.publish(phase_entered(job, phase, event_id, {"generation": generation}))
            log.info("phase.entered", job=job, phase=phase.value, generation=generation)

        await _decided(attempt)

    async def miss(self, job: str, phase: Phase, missing: tuple[str, ...], passage: int) -> bool:
        """Fail a job whose phase has passed its deadline. What comes late of an earlier passage fails nothing."""
        missed, before = list(missing), RANKS[phase] - 1

        async def attempt() -> bool:
            state, rank, _, begun = await self._standing(job)
            if state == RUNNING and rank == before and begun <= passage:
                about = {"job": job, "rank": before, "passage": passage}
                await self._engine.run("job_fail", expect=1, missing=missed, now=self._now(), **about)
                log.warning("job.failed", job=job, missing=missed)
            return rank == before

        return await _decided(attempt)

    async def cancel(self, job: str) -> str:
        """End a job; the state it is in then. Whatever was announced stays announced."""

        async def attempt() -> str:
            state, *_ = await self._standing(job)
            if state == RUNNING:
                await self._engine.run("job_cancel", expect=1, job=job, now=self._now())
                return CANCELLED
            return state

        state = await _decided(attempt)
        if state == CANCELLED:
            await self._pay(job, "cancel", (await self._standing(job))[3])
        return state

    async def resume(self, job: str) -> str:
        """Give a failed job another generation: its phase is announced again, and waits for what is missing."""

        async def attempt() -> str:
            row = await self._engine.one("job", job=job)
            if row is None:
                raise _unknown(job)
            state, phase, generation = str(row[1]), Phase(row[2]), int(row[3]) + 1
            if state != FAILED:
                return state
            event_id, now = new_event_id(), self._now()
            # Its barriers have all run: none of them can miss something for the new generation.
            passage = (await self._engine.wait(job, timeout_s=ENDING_S_MAX)).generation + 1
            about = {"job": job, "generation": generation}
            more = {"generation": generation, **(row[4] if phase is Phase.COLLECTION else {})}
            async with self._engine.transaction() as tx:
                tx.run("job_resume", expect=1, passage=passage, **about)
                tx.run("phase_enter", expect=1, phase=phase.value, event_id=event_id, now=now, **about)
                tx.publish(phase_entered(job, phase, event_id, more))
            return RUNNING

        state = await _decided(attempt)
        if state == RUNNING:
            await self._pay(job, "resume", (await self._standing(job))[3])
        return state

    async def pay_owed(self) -> int:
        """Do what a process owed when it was lost; the number of jobs. A barrier that died with its worker's process
        runs again: a phase must not be lost to it."""
        owed = await self._engine.rows("jobs_owed", limit=OWED_MAX)
        for job, what, passage in owed:
            await self._pay(str(job), str(what), int(passage))
        letters = await self._engine.dead(DeadFilter(flow=FLOW, rule=WORKER_LOST, limit=LETTERS_MAX))
        for job in {letter.job for letter in letters}:
            try:
                state, *_ = await self._standing(job)
                if state == RUNNING and (await self._engine.job(job)).state is JobState.FAILED:
                    await self._redrive(job)
            except NotFound:
                log.warning("job.forgotten", job=job)
        return len(owed)

    async def _pay(self, job: str, what: str, passage: int) -> None:
        """Tell the engine. A job that has not ended yet is redriven by a later look."""
        try:
            if what == "cancel":
                await self._engine.cancel(job)
            elif not await self._redriven(job, passage):
                return
        except NotFound:
            log.warning("job.forgotten", job=job)
        await self._engine.run("job_settled", job=job, owed=what, passage=passage)

    async def _redriven(self, job: str, passage: int) -> bool:
        view = await self._engine.job(job)
        if view.generation < passage and view.state is JobState.FAILED:
            return await self._redrive(job)
        return view.generation >= passage

    async def _redrive(self, job: str) -> bool:
        """False: somebody else was quicker, and has opened the generation that was wanted."""
        try:
            await self._engine.redrive(DeadFilter(job=job))
        except Conflict:
            return False
        return True

    async def _standing(self, job: str) -> tuple[str, int, int, int]:
        """State, rank of its phase, generation, passage."""
        row = await self._engine.one("job_standing", job=job)
        if row is None:
            raise _unknown(job)
        return str(row[0]), int(row[1]), int(row[2]), int(row[3])


async def _decided(attempt: Callable[[], Awaitable[T]]) -> T:
    """Decide again when somebody else was quicker."""
    while True:
        try:
            return await attempt()
        except Conflict:
            continue


def _unknown(job: str) -> NotFound:
    return NotFound(f"there is no job {job[:200]}")
