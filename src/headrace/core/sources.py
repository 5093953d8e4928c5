"""Items that lie in rows of a foreign contract, as they pass between a source and its worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.core.claims import Loss
from headrace.core.losses import WORKER_LOST
from headrace.core.parcels import bounded_s


@dataclass(frozen=True, slots=True)
class ItemCandidate:
    """An item that a poll saw waiting. Nobody holds it for that: by now it may be gone, or another worker's.

    `row` is the source's own, such as where the item was found; the worker hands it back untouched. Of the candidates
    of a poll those with the lowest `rank` are taken first, and equal ones in random order.
    """

    key: str
    row: Any = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Polled:
    """The answer to a poll. `wait_s`: when something that is not due yet becomes due (None: nothing is known to)."""

    candidates: tuple[ItemCandidate, ...] = ()
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item held by one worker, as it was read under the hold.

    `fence` is higher than that of every hold of this item before. `attempts` were spent before this one. `attempts_max`
    and `timeout_s` are the item's own limits (None: the worker's). `row` is the source's own, handed back untouched.

    `suspect`: its last holds were lost, so it may be what ended its worker, and no settlement has cleared it since.
    `crashes` counts the lost holds in which it ran alone: only these are held against it.
    """

    key: str
    payload: Any
    fence: int
    attempts: int = 0
    attempts_max: int | None = None
    timeout_s: float | None = None
    suspect: bool = False
    crashes: int = 0
    row: Any = field(default=None, repr=False)


class ItemState(StrEnum):
    """What a settlement makes of an item: ended well, waiting again, or ended for good without success."""

    DONE = "done"
    AGAIN = "again"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ItemSettlement:
    """How a held item ended: the same value in every repeat, so that a repeat can be written over the first.

    `attempts` are spent by now, this one with them if it was one. `failure` says what went wrong, cut and cleaned as a
    dead letter keeps it; None for what is done, snoozed or waits for an outage to pass. An item that waits again is due
    `delay_s` after `decided_at`, which is the worker's wall clock. `result` is what the handler left for the caller.
    """

    state: ItemState
    attempts: int
    decided_at: float
    took_s: float = 0.0
    delay_s: float = 0.0
    failure: Loss | None = None
    result: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay_s", bounded_s(self.delay_s))

    @property
    def due_at(self) -> float:
        """When an item that waits again is due, by the worker's wall clock, in seconds since the epoch."""
        return self.decided_at + self.delay_s


def is_worker_lost(settlement: ItemSettlement) -> bool:
    """Whether an item dies because its workers were lost with it: nobody has found out what is wrong with it."""
    return settlement.failure is not None and settlement.failure.rule == WORKER_LOST.rule
