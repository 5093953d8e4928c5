"""Lists at the widths that terminals have: no word is cut, and an id is short only where a whole one has no room."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from headrace.cli.lists import ID_CHARS_MIN, Column, print_list, short_ids
from headrace.cli.tables import job_page, print_items, print_jobs, print_letters
from headrace.core.graph import Graph, StageSpec
from headrace.core.jobs import DeadView, ItemView, JobView
from headrace.core.tally import JobState, Tally

WIDTHS = (80, 100, 200)
IDS = ["01a1e4fb-8db5-71a4-84f0-195b390ca86f", "01a1e4fb-8db5-7764-803a-19de7e6f78df"]
ERROR = "ValueError: invalid literal for int() with base 10: 'twelve', in the third field of the address line"
AT = 1_794_843_056.768


def job(name: str) -> JobView:
    graph = Graph.build([StageSpec("send_invoice")])
    stages = {"send_invoice": Tally(12_345, 0, 0, 12_340, 5, 0, sealed=True, closed=True)}
    states = (JobState.FAILED, 1, 0, False, AT, AT, None, graph, stages)
    return JobView(name, "default", "nightly-invoices", *states)


def letter(name: str) -> DeadView:
    rest = ("no address", "attempts_max", ERROR, "7e648c86816f7f1b", 5, AT, None, {"customer": 7})
    return DeadView(name, 1, "send_invoice", 1_234_567, "customer-worse", *rest)


def items() -> list[ItemView]:
    payload = {"customer": "good", "address": "12 Long Street, Somewhere in the North", "cents": 12_345}
    ended = [ItemView("send_invoice", 1_234_567 + number, "customer-good", "done", 1, payload) for number in range(3)]
    return [*ended, ItemView("send_invoice", 1_234_570, "customer-good", "waiting", 1, payload, AT)]


def at_width(width: int, show: Callable[[Console], None]) -> str:
    written = io.StringIO()
    show(Console(file=written, width=width, highlight=False))
    return written.getvalue()


LISTS: dict[str, tuple[Callable[[Console], None], list[str]]] = {
    "jobs": (
        lambda console: print_jobs(console, [job(name) for name in IDS]),
        ["nightly-invoices", "failed", "12,340"],
    ),
    "one job": (lambda console: job_page(console, job(IDS[0]), []), ["send_invoice", "12,345", "closed"]),
    "items": (
        lambda console: print_items(console, items()),
        ["send_invoice", "1234568", "done", "Somewhere", "waiting", "2026-11-16", "15:30:56Z"],
    ),
    "letters": (
        lambda console: print_letters(console, [letter(name) for name in IDS]),
        ["send_invoice", "1234567", "attempts_max", *ERROR.split()],
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", LISTS)
def test_a_list_fits_and_cuts_no_word(name: str, width: int) -> None:
    show, words = LISTS[name]
    shown = at_width(width, show)
    assert [line for line in shown.splitlines() if len(line) > width] == []
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize(("width", "whole"), [(80, False), (100, False), (200, True)])
def test_an_id_is_whole_where_there_is_room(width: int, whole: bool) -> None:
    shown = at_width(width, LISTS["jobs"][0])
    assert all((name in shown) == whole for name in IDS)
    assert all(name[-ID_CHARS_MIN:] in shown for name in IDS)


def test_what_is_left_out_is_named() -> None:
    assert "no room for: key, reason, attempts, died, fingerprint" in " ".join(
        at_width(80, LISTS["letters"][0]).split()
    )
    assert "no room" not in at_width(300, LISTS["letters"][0])


def test_an_empty_list_is_only_its_head() -> None:
    assert "flow" in at_width(80, lambda console: print_jobs(console, []))


def test_ids_that_end_alike_are_shown_longer() -> None:
    assert short_ids(["xx-12345678", "xy-12345678"]) == ["x-12345678", "y-12345678"]
    assert short_ids(["a", "a", "job-2"]) == ["a", "a", "job-2"]


def test_what_has_no_room_at_all_is_folded_and_not_lost() -> None:
    columns = [Column("a", ["x" * 30]), Column("b", ["y" * 90])]
    shown = at_width(80, lambda console: print_list(console, columns))
    assert (shown.count("x"), shown.count("y")) == (30, 90)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
