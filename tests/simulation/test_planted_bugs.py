"""Every guard has a broken twin, and the seeds or the walks notice each of them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from headrace.adapters.sqlite.database import InlineDatabase
from headrace.adapters.sqlite.statements import load_statements
from headrace.testing.contracts import Bench
from headrace.testing.contracts.random_walk import Wanderer
from headrace.testing.passage import ManualClock, ManualPassage
from headrace.testing.simulation import SimulatedParts, run_seeds
from headrace.testing.simulation.bugs import BUGS

SEEDS_FIRST = 10
WALKS = 25
SEEDS = 200


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    parts = BUGS[name].parts
    noticed = _seeds_notice(range(SEEDS_FIRST), parts) or _walks_notice(parts)
    assert noticed or _seeds_notice(range(SEEDS_FIRST, SEEDS), parts), BUGS[name].what


def test_a_worker_that_hangs_is_noticed_although_the_others_end_the_job() -> None:
    outcomes = run_seeds(range(SEEDS), BUGS["rests_after_suspects"].parts).failed
    hidden = [outcome for outcome in outcomes if outcome.state != "open"]
    assert hidden
    assert {finding.invariant for outcome in hidden for finding in outcome.findings} == {"V4"}


def test_the_walks_notice_nothing_where_nothing_is_planted() -> None:
    assert not _walks_notice(SimulatedParts())


def _seeds_notice(seeds: range, parts: SimulatedParts) -> bool:
    return bool(run_seeds(seeds, parts, failures_max=1).failed)


def _walks_notice(parts: SimulatedParts) -> bool:
    return any(_walk_notices(seed, parts) for seed in range(WALKS))


def _walk_notices(seed: int, parts: SimulatedParts) -> bool:
    clock, database = ManualClock(), InlineDatabase()
    parts.prepare(database.connection)
    store = parts.store(database, clock, parts.statements(load_statements()), parts.judge)
    try:
        asyncio.run(Wanderer(Bench(store, ManualPassage(clock)), Random(seed)).wander(90))
    except Exception:
        # Broken accounts end in many ways: a failed recount, a refused row, a job that never ends.
        return True
    return False
