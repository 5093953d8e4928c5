"""The simulator's command line says which seed failed, under which faults, and how to see it again."""

from __future__ import annotations

import pytest

from headrace.testing.simulation.__main__ import main

Told = pytest.CaptureFixture[str]


def test_one_seed_is_told_step_by_step(capsys: Told) -> None:
    assert main(["--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "claim" in told
    assert "seed 1: " in told
    assert "fingerprint" in told


def test_a_failing_seed_is_told_with_its_faults_and_how_to_see_it_again(capsys: Told) -> None:
    assert main(["--seeds", "20", "--bug", "settled_twice"]) == 1
    told = capsys.readouterr().out
    assert "seed 0 failed (--seed 0 --bug settled_twice); faults: " in told
    assert "L1: " in told


def test_a_set_in_which_a_fault_never_struck_is_void(capsys: Told) -> None:
    assert main(["--seeds", "1", "--start", "3"]) == 1
    assert "void: these faults never struck" in capsys.readouterr().out
