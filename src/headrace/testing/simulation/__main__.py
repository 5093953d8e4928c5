"""The simulator's command line: `python -m headrace.testing.simulation`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from headrace.testing.simulation.bugs import BUGS
from headrace.testing.simulation.seeds import Report, run_seeds, silence
from headrace.testing.simulation.world import Outcome, SimulatedParts, run_seed


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    parts = BUGS[options.bug].parts if options.bug else SimulatedParts()
    if options.seed is not None:
        return _one(options.seed, parts)
    began = time.perf_counter()
    report = run_seeds(range(options.start, options.start + options.seeds), parts)
    _tell(report, time.perf_counter() - began)
    for outcome in report.failed:
        _tell_failure(outcome, options.bug)
    if report.never_struck and not report.failed:
        print(f"void: these faults never struck: {', '.join(report.never_struck)}")
        return 1
    return 1 if report.failed else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m headrace.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--start", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed and tell what happened")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a bug: the seeds should fail")
    return parser.parse_args(arguments)


def _one(seed: int, parts: SimulatedParts) -> int:
    with silence():
        outcome = run_seed(seed, parts, tell=print)
    print(f"seed {seed}: {outcome.state} after {outcome.events} events; faults: {outcome.faults}")
    print(f"struck: {dict(outcome.struck)}; fingerprint {outcome.fingerprint[:16]}")
    for finding in outcome.findings:
        print(f"  {finding.invariant}: {finding.what} ({finding.where})")
    return 1 if outcome.findings else 0


def _tell(report: Report, seconds: float) -> None:
    states = ", ".join(f"{count} {state}" for state, count in sorted(report.states.items()))
    print(f"{report.count} seeds in {seconds:.1f} s ({report.count / seconds:.0f}/s): {states}")
    print("struck: " + ", ".join(f"{kind} {count}" for kind, count in sorted(report.struck.items())))


def _tell_failure(outcome: Outcome, bug: str | None) -> None:
    again = f"--seed {outcome.seed}" + (f" --bug {bug}" if bug else "")
    print(f"seed {outcome.seed} failed ({again}); faults: {outcome.faults}")
    for finding in outcome.findings[:5]:
        print(f"  {finding.invariant}: {finding.what} ({finding.where})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
