"""One value where one must be, and an assertion that shows the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def only(found: Sequence[T]) -> T:
    assert len(found) == 1, f"one was expected, {len(found)} came: {found}"
    return found[0]
