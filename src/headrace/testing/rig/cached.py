"""Directories of the cache that are filled once and then only read: a copy of programs, a fresh data directory.

Whoever comes first fills one beside its place and renames it; a lock makes the others wait. What is found later is
counted before it is used, so that a copy that lost files is made anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.testing.rig import places
from headrace.testing.rig.needs import COMPLETE
from headrace.testing.rig.turns import turn


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The directory `name` of the cache, whole; `fill` puts into an empty directory what belongs there."""
    target = places.cache() / name
    with turn(target.with_name(f".{name}.lock"), _say_nothing):
        if _is_whole(target):
            return target
        # Nobody else fills it while we hold the lock, so these are of runs that were killed.
        for left in (target, *target.parent.glob(f".{name}.part-*")):
            shutil.rmtree(left, ignore_errors=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}.part-", dir=target.parent))
        try:
            fresh.chmod(0o755)
            fill(fresh)
            (fresh / COMPLETE).write_text(census(fresh))
            fresh.rename(target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return target


def census(folder: Path) -> str:
    """How many files there are and how many bytes they have."""
    sizes = [
        (Path(parent) / file).lstat().st_size
        for parent, _, files in os.walk(folder)
        for file in files
        if file != COMPLETE
    ]
    return f"{len(sizes)} files, {sum(sizes)} bytes\n"


def keep_digest(folder: Path, file: str) -> None:
    """Write the checksum of a file beside it, for whoever uses it later."""
    with (folder / file).open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    (folder / f"{file}.sha256").write_text(f"{digest}  {file}\n")


def _is_whole(folder: Path) -> bool:
    told = folder / COMPLETE
    return told.exists() and told.read_text() == census(folder)


def _say_nothing(_: str) -> None:
    """It takes a second or two: nobody wonders why."""
