"""Many seeds in a row, and what they add up to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from headrace.testing.simulation.faults import KINDS
from headrace.testing.simulation.world import Outcome, SimulatedParts, run_seed


@dataclass(slots=True)
class Report:
    """What a set of seeds came to. A set in which a fault never struck is void: it has proved nothing about it."""

    count: int = 0
    failed: list[Outcome] = field(default_factory=list)
    struck: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    events: int = 0
    staged: int = 0
    kinds: Sequence[str] = KINDS

    def add(self, outcome: Outcome) -> None:
        self.count += 1
        self.events += outcome.events
        self.staged += outcome.staged
        self.struck.update(outcome.struck)
        self.states[outcome.state] += 1
        if outcome.findings:
            self.failed.append(outcome)

    @property
    def never_struck(self) -> list[str]:
        return [kind for kind in self.kinds if not self.struck[kind]]


def run_seeds(seeds: Iterable[int], parts: SimulatedParts | None = None, failures_max: int = 10) -> Report:
    """Run seeds of flows on a store until they are through or enough of them have failed."""
    return run_each(seeds, lambda seed: run_seed(seed, parts), Report(), failures_max)


def run_each(seeds: Iterable[int], run: Callable[[int], Outcome], report: Report, failures_max: int) -> Report:
    """Run seeds of any world until they are through or enough of them have failed."""
    with silence():
        for seed in seeds:
            report.add(run(seed))
            if len(report.failed) >= failures_max:
                break
    return report


@contextmanager
def silence() -> Iterator[None]:
    """Workers that are killed thousands of times need not tell about it."""
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)
