"""The tree of errors: who must act, and whether the same call may be right later."""

from __future__ import annotations

import inspect
import traceback

import pytest

from headrace.core import errors
from headrace.core.errors import HeadraceError, suppress_healing

KINDS = {
    name: kind
    for name, kind in vars(errors).items()
    if inspect.isclass(kind) and issubclass(kind, HeadraceError) and kind is not HeadraceError
}


def test_the_tree_that_is_drawn_is_the_tree_that_is_raised() -> None:
    drawn = [line.lstrip("│ ├└─").split() for line in (errors.__doc__ or "").splitlines() if "──" in line]
    assert {words[0]: "*" in words[:2] for words in drawn} == {name: kind.heals for name, kind in KINDS.items()}


def test_an_outage_heals_and_a_mistake_does_not() -> None:
    assert {name for name, kind in KINDS.items() if kind.heals} == {
        "Unreachable",
        "StoreFull",
        "ClockSkewed",
        "TryAgain",
        "Unknown",
        "Busy",
    }


@pytest.mark.parametrize("kind", KINDS.values())
def test_only_what_heals_is_suppressed(kind: type[HeadraceError]) -> None:
    def call() -> str:
        with suppress_healing():
            raise kind("no")
        return "left undone"

    if kind.heals:
        assert call() == "left undone"
    else:
        with pytest.raises(kind):
            call()


def test_a_traceback_says_what_to_do() -> None:
    assert traceback.format_exception(HeadraceError("no", "do this")) == [
        "headrace.core.errors.HeadraceError: no\n",
        "→ do this\n",
    ]
    assert traceback.format_exception(HeadraceError("no")) == ["headrace.core.errors.HeadraceError: no\n"]
