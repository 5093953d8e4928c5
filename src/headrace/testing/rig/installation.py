"""Get what is missing: packages, wheels and what is built, side by side; quick if nothing is.

`headrace rig get` and `./test` come here. Whatever can be got is got; then one error says what is left for a person to
do, and the line to run.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from signal import SIGTERM

from headrace.core.errors import HeadraceError, OperatorError
from headrace.testing.rig import children, golang, maven, packages, wheel_files
from headrace.testing.rig.catalogue import SERVERS, TOOLS, needs_of
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import (
    BareWheel,
    CachedFile,
    DebianPackage,
    MavenClosure,
    Need,
    PythonWheel,
    WheelFile,
)
from headrace.testing.rig.turns import Tell

STILL_S = 30.0
WHEELS_S_MAX = 1_800.0


def obtain(names: Sequence[str] = (), tell: Tell | None = None) -> int:
    """Get what these servers and tools need (all, if none is named); how many parts were missing and are here now."""
    return get([need for name in names or (*SERVERS, *TOOLS) for need in needs_of(name)], tell or say)


def get(needs: Sequence[Need], tell: Tell) -> int:
    """Get what is missing of these parts."""
    packages.sweep(packages.ROOT)
    missing = [need for need in dict.fromkeys(needs) if need.found() is None]
    if not missing:
        return 0
    for need in missing:
        tell(need.complaint())
    errors = _side_by_side(_work(missing, tell), tell)
    importlib.invalidate_caches()
    left = [need for need in missing if need.found() is None]
    if errors:
        raise _together(errors)
    if left:
        raise OperatorError("\n".join(need.complaint() for need in left), "; ".join(need.command() for need in left))
    return len(missing)


def say(line: str) -> None:
    print(f"rig: {line}", file=sys.stderr, flush=True)


def _work(missing: Sequence[Need], tell: Tell) -> dict[str, Callable[[], None]]:
    """What there is to do, by who does it: each can go on without the others."""
    debian = [need for need in missing if isinstance(need, DebianPackage)]
    files = [need for need in missing if isinstance(need, WheelFile)]
    closures = [need for need in missing if isinstance(need, MavenClosure)]
    made = [need for need in missing if isinstance(need, CachedFile) and not isinstance(need, WheelFile | MavenClosure)]
    bare = [need for need in missing if isinstance(need, BareWheel)]
    wheels = [need for need in missing if isinstance(need, PythonWheel) and need not in bare]
    work: dict[str, Callable[[], None]] = {}
    if debian:
        work["apt-get"] = lambda: packages.install(debian, tell)
    if made:
        work["go"] = lambda: golang.make(made, tell)
    if closures:
        work["mvn"] = lambda: maven.fetch(closures, tell)
    if files:
        work["pip download"] = lambda: wheel_files.fetch(files, tell)
    if wheels or bare:
        work["pip"] = lambda: _install_all_wheels(wheels, bare, tell)
    return work


def _side_by_side(work: dict[str, Callable[[], None]], tell: Tell) -> list[HeadraceError]:
    """Do all of it, and say now and then what is still under way; the errors it ended with."""
    since = time.monotonic()
    with ThreadPoolExecutor(len(work)) as pool:
        names: dict[Future[None], str] = {pool.submit(part): name for name, part in work.items()}
        waiting = set(names)
        while waiting:
            _, waiting = wait(waiting, STILL_S)
            if waiting and time.monotonic() - since > STILL_S:
                tell(f"{time.monotonic() - since:.0f} s, still at: {', '.join(names[each] for each in waiting)}")
    errors = []
    for future in names:
        error = future.exception()
        if isinstance(error, HeadraceError):
            errors.append(error)
        elif error is not None:
            raise error
    return errors


def _together(errors: Sequence[HeadraceError]) -> HeadraceError:
    if len(errors) == 1:
        return errors[0]
    return OperatorError("\n".join(str(error) for error in errors), "; ".join(error.hint for error in errors))


def _install_all_wheels(wheels: Sequence[PythonWheel], bare: Sequence[BareWheel], tell: Tell) -> None:
    """One after the other: two pips in one environment would meet."""
    if wheels:
        _install_wheels(wheels, (), tell)
    if bare:
        _install_wheels(bare, ("--no-deps",), tell)


def _install_wheels(wheels: Sequence[PythonWheel], options: Sequence[str], tell: Tell) -> None:
    since, wanted = time.monotonic(), [need.requirement for need in wheels]
    tell(f"pip: installing {', '.join(wanted)}")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, *wanted]
    try:
        children.run(Launch(command, os.environ, Path.cwd(), death=SIGTERM), WHEELS_S_MAX)
    except OperatorError as error:
        line = " ".join(f"'{each}'" for each in wanted)
        raise OperatorError(f"pip could not install {line}: {error}", f"pip install {line}") from error
    tell(f"pip: installed in {time.monotonic() - since:.0f} s")
