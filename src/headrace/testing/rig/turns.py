"""One at a time, over all processes of the machine: who comes second waits, and then finds the work done."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.core.errors import OperatorError
from headrace.testing.rig import places

Tell = Callable[[str], None]


@contextmanager
def turn(path: Path, tell: Tell | None) -> Iterator[int]:
    """Hold the lock of this name; with nobody to tell that we wait, BlockingIOError is raised instead of waiting.

    The descriptor may be handed to a child, which then holds the lock as long as it lives.
    """
    with _opened(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if tell is None:
                raise
            tell(f"waiting for another run that is at it ({path})")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("a")
    except OSError as error:
        raise OperatorError(f"{path.parent} cannot be written to", places.OWN_CACHE) from error
