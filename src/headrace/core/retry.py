"""Retry policies: how long to wait before the next attempt, and after which errors there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.core.backoff import Backoff
from headrace.core.claims import ATTEMPTS_MAX, Again
from headrace.core.errors import InvalidFlow
from headrace.core.outcomes import Dead, Done, Outcome, Retry, Snooze

DUE_GROUPS_MAX = 100
DUE_STEP_S = 0.1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`attempts_max` tries; the wait doubles from `first_s` up to `cap_s`, each shortened by up to `jitter`.

    `per` maps an exception class to a policy of its own, or to None: never retried. The most
    specific class wins.
    """

    attempts_max: int = ATTEMPTS_MAX
    first_s: float = 1.0
    factor: float = 2.0
    cap_s: float = 300.0
    jitter: float = 0.5
    per: Mapping[type[BaseException], RetryPolicy | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.attempts_max < 1 or self.first_s < 0 or self.factor < 1 or self.cap_s < 0 or not 0 <= self.jitter <= 1:
            raise InvalidFlow(
                f"{self!r} cannot work", "attempts_max ≥ 1, first_s ≥ 0, factor ≥ 1, cap_s ≥ 0, 0 ≤ jitter ≤ 1"
            )

    def delay_s(self, attempt: int, chance: float) -> float:
        """How long to wait after `attempt` failed attempts; `chance` in [0, 1) spreads the herd."""
        return Backoff(self.first_s, self.cap_s, self.factor, self.jitter).pause_s(attempt, chance)

    def for_error(self, error: BaseException) -> RetryPolicy | None:
        for kind in type(error).__mro__:
            if kind in self.per:
                return self.per[kind]
        return self


def backoff(
    attempts_max: int = ATTEMPTS_MAX,
    first_s: float = 1.0,
    cap_s: float = 300.0,
    per: Mapping[type[BaseException], RetryPolicy | None] | None = None,
) -> RetryPolicy:
    """Exponential backoff with jitter: `retry=backoff(5)`."""
    return RetryPolicy(attempts_max=attempts_max, first_s=first_s, cap_s=cap_s, per=per or {})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one outcome means for one held item: done, dead with a reason, or waiting again."""

    done: bool = False
    reason: str = ""
    rule: str = ""
    delay_s: float | None = None
    attempt: int = 0


def decide(attempt: int, outcome: Outcome, policy: RetryPolicy, chance: float) -> Verdict:
    """Judge an outcome of an item that had spent `attempt` attempts before this one."""
    match outcome:
        case Done():
            return Verdict(done=True)
        case Snooze(after_s=after_s):
            return Verdict(delay_s=after_s, attempt=attempt)
        case Retry(reason=reason, after_s=after_s):
            spent = attempt + 1
            if spent >= policy.attempts_max:
                return Verdict(reason=reason, rule="attempts_max", attempt=spent)
            delay = policy.delay_s(spent, chance) if after_s is None else after_s
            return Verdict(reason=reason, delay_s=delay, attempt=spent)
        case Dead(reason=reason, rule=rule):
            return Verdict(reason=reason, rule=rule, attempt=attempt + 1)


@dataclass(frozen=True, slots=True)
class Group:
    """Items of a claim that wait again together."""

    delay_s: float
    attempt: int
    indexes: tuple[int, ...]


def groups(again: Iterable[Again]) -> list[Group]:
    """One group per attempt and delay, rounded up; the steps grow until there are few enough."""
    chosen, step_s = tuple(again), DUE_STEP_S
    delay_s_max = max((entry.delay_s for entry in chosen), default=0.0)
    while True:
        found: dict[tuple[float, int], list[int]] = {}
        for entry in chosen:
            delay_s = -(-entry.delay_s // step_s) * step_s
            found.setdefault((delay_s, entry.attempt), []).append(entry.index)
        # Once all delays are one step, longer steps make no fewer groups.
        if len(found) <= DUE_GROUPS_MAX or step_s > delay_s_max:
            return [Group(*key, tuple(sorted(set(indexes)))) for key, indexes in found.items()]
        step_s *= 4
