"""Schedules in simulated worlds."""

from __future__ import annotations

from headrace.testing.simulation import run_seed
from headrace.testing.simulation.seeds import silence


def test_moments_that_a_wrong_clock_jumped_over_are_not_missed() -> None:
    """The only worker declares the schedule by a clock that is ahead and set back later."""
    with silence():
        assert run_seed(320).findings == ()
