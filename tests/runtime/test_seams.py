"""The real time, chance, identity and threads."""

from __future__ import annotations

import ast
import threading
from pathlib import Path

import pytest

import headrace.runtime
from headrace.runtime.seams import RealThreads, Seams

WORLD = {"time", "random", "uuid", "uuid_utils", "threading", "socket", "queue"}
RUNTIME = Path(headrace.runtime.__file__).parent
# The supervisor is about processes: it is not part of what the simulator drives.
OUTSIDE = {"seams.py", "supervisor.py"}


def test_work_runs_in_threads_that_are_used_again() -> None:
    threads = RealThreads()
    first = threads.run(threading.get_ident)
    assert first.result(5) != threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        threads.run(lambda: 1 // 0).result(5)


def test_work_that_blocks_does_not_hold_up_other_work() -> None:
    threads, release = RealThreads(), threading.Event()
    blocked = [threads.run(release.wait) for _ in range(5)]
    assert threads.run(lambda: 7).result(5) == 7
    release.set()
    assert all(future.result(5) for future in blocked)


def test_a_heart_beats_until_it_is_stopped() -> None:
    beats, enough = [], threading.Semaphore(0)

    def beat() -> None:
        beats.append(1)
        enough.release()

    running = RealThreads().beat(0.001, beat)
    assert all(enough.acquire(timeout=5) for _ in range(3))
    running.stop()
    assert len(beats) >= 3


def test_ids_sort_by_the_time_they_were_made() -> None:
    identity = Seams().identity
    ids = [identity.new() for _ in range(1_000)]
    assert ids == sorted(set(ids))


def test_the_clock_knows_its_boot() -> None:
    clock = Seams().clock
    assert clock.boot_id() == clock.boot_id() != ""
    assert clock.monotonic() <= clock.monotonic()
    assert clock.wall() > 1_700_000_000
    assert 0 <= Seams().chance.random() < 1


@pytest.mark.parametrize("path", sorted(RUNTIME.glob("*.py")), ids=lambda path: path.name)
def test_only_the_seams_touch_the_world(path: Path) -> None:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    assert path.name in OUTSIDE or not names & WORLD
