"""Who is charged when a worker is lost.

A crash charges nobody but the one item that certainly was the only one started: the first unsettled item
of a claim that ran alone. Everything else that was in the claim comes back suspect, uncharged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core.claims import CRASHES_MAX, Loss

# What a store says by itself of an item: its workers were lost with it, or no event came in time. Nothing was raised.
WORKER_LOST = Loss(
    0,
    "worker_lost",
    "worker_lost",
    f"its worker was lost {CRASHES_MAX} times while it ran alone: killed, out of memory, frozen or crashed. "
    "Such an end leaves no traceback; what `headrace worker` said at the time may tell more.",
)
DEADLINE = Loss(0, "deadline", "deadline_s", "no event had closed it by its deadline; there is no traceback.")


@dataclass(frozen=True, slots=True)
class Charge:
    """Indexes of a lost claim: `dead` ones were alone in too many losses, `charged` ones have one more crash."""

    dead: tuple[int, ...]
    charged: tuple[int, ...]
    uncharged: tuple[int, ...]


def charge(alone: bool, unsettled: Sequence[int], crashes: int) -> Charge:
    """Judge the unsettled items of a lost claim whose chunk had `crashes` crashes before."""
    if not alone or not unsettled:
        return Charge((), (), tuple(unsettled))
    culprit, others = (unsettled[0],), tuple(unsettled[1:])
    if crashes + 1 >= CRASHES_MAX:
        return Charge(culprit, (), others)
    return Charge((), culprit, others)
