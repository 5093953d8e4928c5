"""Waiting ends with what was waited for, or with words that say what did not come."""

from __future__ import annotations

import asyncio
from itertools import count

import pytest
from waiting import by_the_clock, eventually, until

SHORT_S = 0.03


async def test_the_first_true_answer_is_returned() -> None:
    numbers = count()
    assert until(lambda: next(numbers), "a number that is not zero") == 1

    async def following() -> int:
        return next(numbers)

    assert await eventually(following, "the next one") == 2


async def test_what_did_not_come_is_named() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.03 s: a list that fills"):
        until(list[int], "a list that fills", SHORT_S)
    seen = list[int]()
    with pytest.raises(AssertionError, match=r"more than \[1\]"):
        until(lambda: seen.append(1), lambda: f"more than {seen[:1]}", SHORT_S)
    with pytest.raises(TimeoutError, match="a guard"):
        await eventually(list[int], "a guard", SHORT_S, otherwise=TimeoutError)


async def test_a_look_that_hangs_ends_at_the_deadline() -> None:
    with pytest.raises(AssertionError, match="an answer"):
        await eventually(asyncio.Event().wait, "an answer", SHORT_S)


def test_a_proof_by_the_clock_is_made_again_and_not_for_ever() -> None:
    took_s = [3.0, 2.0, 1.0]

    def proof() -> None:
        assert took_s.pop(0) < 1.5, "too slow"

    by_the_clock(proof)
    assert took_s == []
    took_s += [3.0, 2.0, 1.0]
    with pytest.raises(AssertionError, match="too slow"):
        by_the_clock(proof, tries=2)
    assert took_s == [1.0]


async def test_an_error_of_the_condition_is_its_own() -> None:
    async def fail() -> bool:
        raise TimeoutError("the server is slow")

    with pytest.raises(TimeoutError, match="the server is slow"):
        await eventually(fail, "an answer")
