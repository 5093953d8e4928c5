"""A hundred seeds (`make torture`: a hundred thousand) of the real runtime on a real store: nothing lost or doubled."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import structlog

from headrace.testing.simulation import run_seed, run_seeds
from headrace.testing.simulation.loop import Deadlock, Process, VirtualLoop
from headrace.testing.simulation.seeds import silence

SEEDS = 100
SAME_TWICE = 15


def test_no_seed_breaks_an_invariant_and_every_fault_struck() -> None:
    report = run_seeds(range(SEEDS))
    assert not report.failed, "\n".join(f"--seed {o.seed}: {o.findings[0]} ({o.faults})" for o in report.failed)
    assert not report.never_struck
    assert set(report.states) == {"finished", "failed", "cancelled"}
    assert report.staged > 0


@pytest.mark.parametrize("seed", [22514, 41149])
def test_a_renewal_at_the_very_end_of_the_hold_is_in_time(seed: int) -> None:
    with silence():
        assert run_seed(seed).findings == ()


@pytest.mark.parametrize("seed", [420, 727, 858])
def test_a_claim_of_suspects_does_not_end_between_two_of_them(seed: int) -> None:
    with silence():
        assert run_seed(seed).findings == ()


def test_the_same_seed_gives_the_same_trace() -> None:
    with silence():
        for seed in range(SAME_TWICE):
            first, second = run_seed(seed), run_seed(seed)
            assert (first.fingerprint, first.events) == (second.fingerprint, second.events), f"seed {seed}"


def test_seeds_differ() -> None:
    with silence():
        assert len({run_seed(seed).fingerprint for seed in range(5)}) == 5


class Bystander:
    """Writes down what runs."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.lines: list[str] = []

    async def work(self, name: str, naps: int) -> None:
        try:
            for nap in range(naps):
                await asyncio.sleep(1.0)
                self.lines.append(f"{name}{nap}@{self.loop.time():g}")
        finally:
            self.lines.append(f"{name} cleaned up")


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop(Random(1))


def test_a_killed_process_runs_nothing_more_not_even_its_finally(loop: VirtualLoop) -> None:
    seen, victim = Bystander(loop), Process("victim")
    loop.spawn(victim, seen.work("v", 5))
    loop.later(loop.system, 2.5, loop.kill, victim)
    loop.elapse(10.0)
    assert seen.lines == ["v0@1", "v1@2"]
    loop.bury()


def test_a_paused_process_goes_on_where_it_was_with_its_timers_due(loop: VirtualLoop) -> None:
    seen, frozen = Bystander(loop), Process("frozen")
    loop.spawn(frozen, seen.work("f", 3))
    loop.later(loop.system, 1.5, loop.pause, frozen)
    loop.later(loop.system, 7.0, loop.resume, frozen)
    loop.elapse(10.0)
    assert seen.lines == ["f0@1", "f1@7", "f2@8", "f cleaned up"]
    loop.bury()


def test_the_threads_of_a_blocked_process_go_on(loop: VirtualLoop) -> None:
    seen, process = Bystander(loop), Process("busy")
    loop.spawn(process, seen.work("loop", 2))
    loop.spawn(process.thread("heart"), seen.work("heart", 2))
    loop.later(loop.system, 0.5, loop.block, process)
    loop.later(loop.system, 5.0, loop.resume, process)
    loop.elapse(10.0)
    assert seen.lines[:3] == ["heart0@1", "heart1@2", "heart cleaned up"]
    assert seen.lines[3:] == ["loop0@5", "loop1@6", "loop cleaned up"]
    loop.bury()


def test_a_late_loop_finds_several_timers_due_in_one_turn() -> None:
    turns: list[float] = []
    for late_s in (0.0, 0.05):
        loop = VirtualLoop(Random(1), late_s)
        for number in range(100):
            loop.later(loop.system, 1.0 + 0.01 * number, lambda loop=loop: turns.append(loop.time()))
        loop.elapse(3.0)
        loop.bury()
    assert len(set(turns[:100])) == 100
    assert len(set(turns[100:])) < 50


def test_a_run_in_which_nothing_can_happen_any_more_is_a_deadlock(loop: VirtualLoop) -> None:
    with pytest.raises(Deadlock, match="nothing can run"):
        loop.run_until_complete(loop.spawn(loop.system, asyncio.Event().wait()))
    loop.bury()


def test_time_passes_at_once(loop: VirtualLoop) -> None:
    loop.elapse(86_400.0)
    assert loop.time() == 86_400.0
    loop.bury()


def test_silence_leaves_logging_as_it_was() -> None:
    structlog.reset_defaults()
    with silence():
        assert structlog.is_configured()
    assert not structlog.is_configured()
