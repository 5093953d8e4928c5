"""The counts of one stage of one job, and when its dead are too many."""

from __future__ import annotations

from dataclasses import dataclass
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
