"""The flow of a job: events of independent producers are external stages, phases the barriers behind them.

    collection → products…, videos… → feature_extraction → four events → matching → … → evidence → … → completed

What comes before its stage opens is remembered by the engine; a second event of a name closes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import headrace
from headrace.ports import Tally
from headrace_matching.events.names import CLOSED_BY, Phase

FLOW = "matching"
KEEP_S = 30 * 86_400.0
"""For how long the engine keeps an ended job: so long a failed one can be resumed."""
# Only a mistake of ours can fail here, and a phase must not be lost to it: outages spend no attempt.
_RETRY = headrace.backoff(20, first_s=0.1, cap_s=60.0)


class PhaseEntry(Protocol):
    """What happens at a barrier."""

    async def enter(self, job: str, phase: Phase) -> None:
        """All events of the phase before have come."""

    async def miss(self, job: str, phase: Phase, missing: tuple[str, ...], passage: int) -> bool:
        """Some will not come, in this generation of the engine's job. False: the phase before was not entered either,
        so nobody waited for them."""


def phase_flow(entry: PhaseEntry, deadline_s: float | None = None) -> headrace.Flow:
    """The flow, whose barriers call `entry`. With a deadline, each phase waits for its events for so long."""
    flow = headrace.Flow(FLOW)

    @flow.stage(name=Phase.COLLECTION.value)
    async def collection(_nothing: None) -> None:
        """The phase was entered with the job itself; behind this stage its events are waited for."""

    phases = list(Phase)
    for phase, names in CLOSED_BY.items():
        for name in names:
            flow.external(name, after=phase.value, deadline_s=deadline_s)
        _barrier(flow, entry, phases[phases.index(phase) + 1], names)
    return flow


def _barrier(flow: headrace.Flow, entry: PhaseEntry, phase: Phase, names: tuple[str, ...]) -> None:
    # With `stop_early` nobody is waited for behind a phase that was not entered.
    @flow.stage(name=phase.value, after=names, stop_early=True, retry=_RETRY)
    async def barrier(context: headrace.Context) -> None:
        missing = absent(names, context.tallies)
        if not missing:
            await entry.enter(context.job, phase)
        elif await entry.miss(context.job, phase, missing, context.generation):
            raise headrace.Dead(f"never came: {', '.join(missing)}", rule="phase_deadline")


def absent(names: tuple[str, ...], tallies: Mapping[str, tuple[Tally, Tally]]) -> tuple[str, ...]:
    """Names whose event has not come in any generation."""
    return tuple(name for name in names if tallies[name][1].done == 0)
