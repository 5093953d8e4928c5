"""Every guard has a broken twin, and the seeds notice each of them."""

from __future__ import annotations

import pytest

from headrace.testing.simulation import run_seeds
from headrace.testing.simulation.bugs import BUGS

SEEDS = 200


@pytest.mark.parametrize("name", BUGS)
def test_the_seeds_notice_a_planted_bug(name: str) -> None:
    report = run_seeds(range(SEEDS), BUGS[name].parts, failures_max=1)
    assert report.failed, f"{BUGS[name].what}: survived {SEEDS} seeds"
