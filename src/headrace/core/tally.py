"""The counts of one stage of one job, and when its dead are too many.

A job is judged by the sum over its generations, in which an item counts once, in its newest generation: a redrive
takes it out of the dead of an earlier one. What was not redriven is dead still, however well the redrive went.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from headrace.core.errors import InvalidFlow


class JobState(StrEnum):
    """Where a job stands; all but `OPEN` are ends."""

    OPEN = "open"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Tally:
    """total = waiting + held + done + dead + cancelled, at every instant."""

    total: int = 0
    waiting: int = 0
    held: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    sealed: bool = False
    closed: bool = False

    @property
    def ended(self) -> int:
        return self.done + self.dead + self.cancelled

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.total + other.total,
            self.waiting + other.waiting,
            self.held + other.held,
            self.done + other.done,
            self.dead + other.dead,
            self.cancelled + other.cancelled,
            self.sealed and other.sealed,
            self.closed and other.closed,
        )


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How many dead items a stage bears before its job fails: a count, or a share of its total."""

    count: int = 0
    percent: float | None = None

    @classmethod
    def parse(cls, value: int | str) -> Tolerance:
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return cls(count=value)
        if isinstance(value, str) and value.endswith("%"):
            try:
                percent = float(value[:-1])
            except ValueError:
                percent = -1.0
            if 0 <= percent <= 100:
                return cls(percent=percent)
        raise InvalidFlow(f"tolerate={value!r} is neither a count nor a share", 'write tolerate=10 or tolerate="5%"')

    def exceeded(self, dead: int, total: int) -> bool:
        if self.percent is None:
            return dead > self.count
        return dead * 100 > self.percent * total


def over_generations(passages: Sequence[tuple[Tally, int]]) -> Tally:
    """The tally of one stage over all generations, oldest first, each with how many dead letters it took up again."""
    redriven = sum(letters for _, letters in passages)
    newest = passages[-1][0]
    every = sum((tally for tally, _ in passages[:-1]), newest)
    return replace(
        every,
        total=every.total - redriven,
        dead=every.dead - redriven,
        sealed=newest.sealed,
        closed=newest.closed,
    )


def state_at_end(stages: Iterable[tuple[Tolerance, Tally]], cancelled: bool, generation: int) -> JobState:
    """The state of a job whose newest generation has ended, from its tallies over all generations.

    A cancel ends the first passage as cancelled, whatever died in it. A job that is redriven stays failed as long
    as too much of it is dead, also if the redrive is cancelled.
    """
    if cancelled and generation == 1:
        return JobState.CANCELLED
    if any(tolerance.exceeded(tally.dead, tally.total) for tolerance, tally in stages):
        return JobState.FAILED
    return JobState.CANCELLED if cancelled else JobState.FINISHED
