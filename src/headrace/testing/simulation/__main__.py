"""The simulator's command line: `python -m headrace.testing.simulation`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace.testing.simulation.bugs import BUGS
from headrace.testing.simulation.seeds import Report, run_seeds, silence
from headrace.testing.simulation.sources import SourceParts, run_source_seed, run_source_seeds
from headrace.testing.simulation.sources.bugs import SOURCE_BUGS
from headrace.testing.simulation.world import Outcome, SimulatedParts, run_seed


@dataclass(frozen=True, slots=True)
class Seeded:
    """What a world makes of seeds: one, told step by step, or many."""

    one: Callable[[int], Outcome]
    many: Callable[[range], Report]


def _flows(bug: str | None) -> Seeded:
    parts = BUGS[bug].parts if bug else SimulatedParts()
    return Seeded(lambda seed: run_seed(seed, parts, tell=print), lambda seeds: run_seeds(seeds, parts))


def _sources(bug: str | None) -> Seeded:
    parts = SOURCE_BUGS[bug].parts if bug else SourceParts()
    return Seeded(lambda seed: run_source_seed(seed, parts, tell=print), lambda seeds: run_source_seeds(seeds, parts))


WORLDS = {"flows": _flows, "sources": _sources}


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    world = WORLDS[options.world](options.bug)
    if options.seed is not None:
        return _one(options.seed, world)
    began = time.perf_counter()
    report = world.many(range(options.start, options.start + options.seeds))
    _tell(report, time.perf_counter() - began)
    for outcome in report.failed:
        _tell_failure(outcome, options)
    if report.never_struck and not report.failed:
        print(f"void: these faults never struck: {', '.join(report.never_struck)}")
        return 1
    return 1 if report.failed else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed and tell what happened")
    parser.add_argument("--world", choices=sorted(WORLDS), default="flows", help="flows on a store, or a source")
    parser.add_argument("--bug", choices=sorted({*BUGS, *SOURCE_BUGS}), help="plant a bug: the seeds should fail")
    options = parser.parse_args(arguments)
    if options.bug is not None and options.bug not in (BUGS if options.world == "flows" else SOURCE_BUGS):
        parser.error(f"--bug {options.bug} is of the other world")
    return options


def _one(seed: int, world: Seeded) -> int:
    with silence():
        outcome = world.one(seed)
    print(f"seed {seed}: {outcome.state} after {outcome.events} events; faults: {outcome.faults}")
    print(f"struck: {dict(outcome.struck)}; fingerprint {outcome.fingerprint[:16]}")
    for finding in outcome.findings:
        print(f"  {finding.invariant}: {finding.what} ({finding.where})")
    return 1 if outcome.findings else 0


def _tell(report: Report, seconds: float) -> None:
    states = ", ".join(f"{count} {state}" for state, count in sorted(report.states.items()))
    print(f"{report.count} seeds in {seconds:.1f} s ({report.count / seconds:.0f}/s): {states}")
    print("struck: " + ", ".join(f"{kind} {count}" for kind, count in sorted(report.struck.items())))


def _tell_failure(outcome: Outcome, options: argparse.Namespace) -> None:
    again = f"--seed {outcome.seed}" + (f" --bug {options.bug}" if options.bug else "")
    if options.world != "flows":
        again = f"--world {options.world} {again}"
    print(f"seed {outcome.seed} failed ({again}); faults: {outcome.faults}")
    for finding in outcome.findings[:5]:
        print(f"  {finding.invariant}: {finding.what} ({finding.where})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
