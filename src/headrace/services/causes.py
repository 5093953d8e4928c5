"""Why something ended: the error inside the groups that tasks wrap around it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def bare_errors() -> Iterator[None]:
    """What leaves the block leaves it unwrapped: exit codes and hints go by the kind of an error, and a group of one
    hides it. Of several the first counts, because it made the others end."""
    try:
        yield
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
