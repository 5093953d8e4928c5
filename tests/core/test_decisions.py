"""What is decided once for all stores."""

from __future__ import annotations

import math

import pytest

from headrace.core import bits
from headrace.core.claims import Again, Loss
from headrace.core.deliveries import REASON_CHARS_MAX
from headrace.core.parcels import DELAY_S_MAX, Parcel
from headrace.core.retry import DUE_GROUPS_MAX, Group, groups
from headrace.core.rotation import LOWEST_EVERY, TENANTS_REMEMBERED_MAX, Turn, share


def test_a_bit_pair_has_one_name() -> None:
    assert list(bits.states(5, 4, low=0b01010, high=0b01100)) == ["held", "done", "ended", "moved", "waiting"]
    assert [bits.state_of("ended", letter) for letter in (True, False)] == ["dead", "cancelled"]


@pytest.mark.parametrize(
    ("given", "kept"), [(-1.0, 0.0), (math.nan, 0.0), (2.5, 2.5), (math.inf, DELAY_S_MAX), (1e300, DELAY_S_MAX)]
)
def test_a_delay_is_bounded_wherever_it_comes_from(given: float, kept: float) -> None:
    assert Again(0, given, 1).delay_s == kept
    assert Parcel("a", b"x", [1], delay_s=given).delay_s == kept


def test_what_waits_again_is_grouped_by_attempt_and_delay_rounded_up() -> None:
    again = [Again(3, 0.01, 1), Again(0, 0.1, 1), Again(1, 0.1, 2), Again(2, 0.0, 1)]
    assert groups(again) == [Group(0.1, 1, (0, 3)), Group(0.1, 2, (1,)), Group(0.0, 1, (2,))]


def test_groups_are_few_however_many_delays_there_are() -> None:
    assert len(groups(Again(index, index * 1.0, 1) for index in range(5_000))) <= DUE_GROUPS_MAX


def test_errors_that_differ_in_numbers_only_group() -> None:
    found = {Loss(0, "x", "r", error).fingerprint for error in ("row 1 of 20", "row 3 of 44", "row ٣ of 99")}
    assert len(found) == 1
    assert Loss(0, "x", "other", "row 1 of 20").fingerprint not in found


def test_the_lowest_priority_comes_first_now_and_then() -> None:
    turn, lowest = Turn(), []
    for _ in range(2 * LOWEST_EVERY):
        lowest.append(turn.lowest)
        turn.serve("tenant", "job")
    assert [place for place, first in enumerate(lowest) if first] == [LOWEST_EVERY - 1, 2 * LOWEST_EVERY - 1]


def test_a_turn_remembers_so_many_tenants_and_tells_of_those_that_come_next() -> None:
    turn = Turn()
    for number in range(TENANTS_REMEMBERED_MAX + 5):
        turn.serve(f"t{number:04d}", "job")
    assert len(turn.jobs) == TENANTS_REMEMBERED_MAX
    turn.serve("t0500", "job")
    assert list(turn.ahead(2)) == ["t0501", "t0502"]


@pytest.mark.parametrize(("waiting", "live", "part"), [(5, 2, 2), (4, 2, 1), (0, 3, 1), (9, 1, 9), (40, 5, 4)])
def test_a_share_is_rounded_up_and_never_nothing(waiting: int, live: int, part: int) -> None:
    assert share(waiting, live) == part


def test_the_reason_and_the_rule_of_a_letter_are_bounded() -> None:
    loss = Loss(0, "a whole page " * 1_000, "r" * 5_000)
    assert (len(loss.reason), len(loss.rule)) == (REASON_CHARS_MAX, REASON_CHARS_MAX)
