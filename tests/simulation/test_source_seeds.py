"""The worker of a source under every fault: nothing lost, nothing doubled, and each broken guard is noticed."""

from __future__ import annotations

import pytest

from headrace.testing.simulation.__main__ import main
from headrace.testing.simulation.seeds import silence
from headrace.testing.simulation.sources import run_source_seed, run_source_seeds
from headrace.testing.simulation.sources.bugs import SOURCE_BUGS

SEEDS = 100
SEEDS_OF_BUGS = 300
SAME_TWICE = 10


def test_no_seed_breaks_an_invariant_and_every_fault_struck() -> None:
    report = run_source_seeds(range(SEEDS))
    assert not report.failed, "\n".join(f"--seed {o.seed}: {o.findings[0]} ({o.faults})" for o in report.failed)
    assert not report.never_struck
    assert report.states == {"ended": SEEDS}


@pytest.mark.parametrize("name", SOURCE_BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    assert run_source_seeds(range(SEEDS_OF_BUGS), SOURCE_BUGS[name].parts, failures_max=1).failed, SOURCE_BUGS[
        name
    ].what


@pytest.mark.parametrize("seed", [61, 266, 339, 424])
def test_no_error_and_no_timeout_of_its_own_leads_a_handler_past_its_hold(seed: int) -> None:
    """A process that was stopped wakes with an answer, an error or an expired timeout for its handler, and the hold has
    passed meanwhile."""
    with silence():
        assert run_source_seed(seed).findings == ()


def test_the_same_seed_gives_the_same_trace() -> None:
    with silence():
        for seed in range(SAME_TWICE):
            first, second = run_source_seed(seed), run_source_seed(seed)
            assert (first.fingerprint, first.events) == (second.fingerprint, second.events), f"seed {seed}"


def test_a_failing_seed_is_told_with_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--world", "sources", "--seeds", "3", "--bug", "fences_anew"]) == 1
    assert "(--world sources --seed 0 --bug fences_anew); faults: " in capsys.readouterr().out
    assert main(["--world", "sources", "--seed", "0"]) == 0
    assert "'poll'" in capsys.readouterr().out


def test_a_set_in_which_a_fault_never_struck_is_void(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--world", "sources", "--seeds", "1", "--start", "1"]) == 1
    assert "void: these faults never struck" in capsys.readouterr().out


def test_a_bug_of_the_other_world_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--world", "sources", "--bug", "settled_twice"])
    assert "of the other world" in capsys.readouterr().err
