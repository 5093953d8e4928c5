"""The tree of errors: who must act, and whether the same call may be right later."""

from __future__ import annotations

import inspect
import traceback
from pathlib import Path

import pytest

from headrace.core import errors
from headrace.core.errors import CallerError, HeadraceError, OperatorError, suppress_healing, writing_to

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


def test_what_cannot_be_written_is_named_with_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "report.html"
    expected = pytest.raises(OperatorError, match="html cannot be written: No such file")
    with expected as refused, writing_to(file, "name another file"):
        file.write_text("")
    assert refused.value.hint == "name another file"
    with pytest.raises(OperatorError, match="cannot be written: the disk is odd"), writing_to(file, ""):
        raise OSError("the disk is odd")
    with pytest.raises(CallerError, match="exists"), writing_to(file, ""):
        raise CallerError("exists")
