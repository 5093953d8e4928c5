"""A flow that is submitted by the clock, in some of the worlds, and what must be true of its fires at the end.

S1: every fire is a moment of the timetable. S2: a fire that says it submitted a job and its job are there together, and
no moment has two. S3: every moment has its fire once faults have healed: all since the declaration, or if clocks were
wrong all since they are right, because what a clock has jumped over has not been.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from random import Random

import apsw

from headrace.core.schedules import fire_key
from headrace.runtime.context import Context
from headrace.runtime.flow import Flow
from headrace.testing.simulation.flows import Surroundings
from headrace.testing.simulation.history import History

NAME = "ticking"
SHARE = 8
LATE_S = 3.0
"""How long after its moment a fire may be missing in a healthy world: a look a second, the jitter, the wire."""

ROWS = "SELECT moment_ms, outcome, job FROM headrace_fire WHERE schedule = ?"
JOBS = "SELECT id, key FROM headrace_job WHERE flow = ?"


class Ticks:
    """The scheduled flow of one world."""

    def __init__(self, seed: int, surroundings: Surroundings) -> None:
        chance = Random(f"ticks {seed}")
        self.flow = Flow(NAME)
        self._promised_at: float | None = None
        self._every_s = chance.choice((2, 3, 5))
        takes_s = chance.choice((0.0, 0.1, 0.3))

        @self.flow.every(
            timedelta(seconds=self._every_s),
            misfire="all",
            jitter_s=chance.choice((0.0, 0.0, 0.5)),
            overlap=chance.choice(("allow", "allow", "skip")),
        )
        @self.flow.stage
        async def tick(moment: str, context: Context) -> None:
            await asyncio.sleep(takes_s)
            await surroundings.effect("once", context.effect_key, context.fence)
            surroundings.ran(context.effect_key, context.fence)

    def declared(self, wall: float) -> None:
        """The store has the schedule since this moment of the true clock, or an earlier one."""
        self._promised_at = wall if self._promised_at is None else self._promised_at

    def set_right(self, wall: float) -> None:
        """All clocks are right from now on; a look later every worker goes by them."""
        self._promised_at = wall + LATE_S

    def check(self, connection: apsw.Connection, history: History, wall: float) -> None:
        """Look at all fires and all jobs of the schedule, when the true clock says `wall`."""
        step_ms = self._every_s * 1_000
        rows = connection.execute(ROWS, (NAME,)).fetchall()
        fired: dict[str, str] = {}
        for moment, outcome, job in rows:
            if int(str(moment)) % step_ms:
                history.found("S1", f"fired {moment}, which is no moment of its timetable", NAME)
            if outcome == "refused":
                history.found("S2", f"fired {moment} and submitted nothing", NAME)
            if outcome == "fired":
                fired[str(job)] = fire_key(NAME, int(str(moment)))
        jobs = {str(job): str(key) for job, key in connection.execute(JOBS, (NAME,)).fetchall()}
        for job in sorted(fired.items() ^ jobs.items()):
            history.found("S2", "a fire without its job, or a job without its fire", job)
        if self._promised_at is None:
            return
        first, last = int(self._promised_at * 1_000), int((wall - LATE_S) * 1_000)
        known = {int(str(moment)) for moment, _, _ in rows}
        missing = [moment for moment in range(first // step_ms * step_ms, last, step_ms) if moment > first]
        for moment in missing:
            if moment not in known:
                history.found("S3", f"the moment {moment} did not fire", NAME)
