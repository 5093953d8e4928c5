"""The one formula by which pauses grow."""

from __future__ import annotations

from headrace.core.backoff import Backoff
from headrace.core.retry import RetryPolicy
from headrace.runtime.pacing import Pauses


class Always:
    def __init__(self, value: float) -> None:
        self._value = value

    def random(self) -> float:
        return self._value


def test_a_pause_grows_up_to_its_limit_however_often_something_failed() -> None:
    backoff = Backoff(0.5, 10.0)
    assert [backoff.pause_s(failures) for failures in (0, 1, 2, 3, 5, 6, 10**6)] == [0.5, 0.5, 1, 2, 8, 10, 10]


def test_chance_shortens_a_pause_by_its_jitter_at_most() -> None:
    assert Backoff(1.0, 10.0, jitter=0.5).pause_s(2, 0.5) == 1.5
    assert Backoff(1.0, 10.0, jitter=0.0).pause_s(2, 0.5) == 2.0


def test_pauses_are_short_again_after_a_success() -> None:
    pauses = Pauses(Always(1.0), Backoff(1.0, 3.0))
    assert [pauses.next_s(), pauses.next_s(), pauses.next_s()] == [1.0, 2.0, 3.0]
    pauses.reset()
    assert pauses.next_s() == 1.0


def test_items_are_retried_by_the_same_formula() -> None:
    policy = RetryPolicy(first_s=1.0, cap_s=300.0, jitter=0.5)
    assert [policy.delay_s(attempt, 0.5) for attempt in (1, 2, 3, 20)] == [0.75, 1.5, 3.0, 225.0]
