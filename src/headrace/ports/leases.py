"""Leases: a named resource is held by one holder at a time.

Fences of a resource rise over all grants ever: its row is never deleted, and a release only clears the holder. Expiry
is judged by the store's one clock. Every call may be repeated as it is after a lost answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from headrace.core.leases import Lease, Leased


@dataclass(frozen=True, slots=True)
class LeaseFeatures:
    """What differs where a foreign contract decides; the contract suite leaves out the tests that need it.

    `remembers_released`: a released resource keeps its row with fence and epoch, so that it can be looked at and taken
    over, and letting go twice is True. `mints_by_clock`: a fence is at least the wall clock in microseconds; otherwise
    they start at 1. `counts_epochs`: an epoch counts the grants after the first. `spares_expired`: `acquire` leaves
    what has expired to `takeover`. `fixes_fences`: whoever is refused sees the holder's final fence; otherwise it may
    rise until the grant is reported. `tells_repeats`: `Leased.repeated` is exact; otherwise it is always False.
    `keeps_time`: expiry is judged by the store's clock; otherwise by the caller's.
    """

    remembers_released: bool = True
    mints_by_clock: bool = True
    counts_epochs: bool = True
    spares_expired: bool = True
    fixes_fences: bool = True
    tells_repeats: bool = True
    keeps_time: bool = True


class Leases(Protocol):
    async def acquire(self, name: str, holder: str, hold_s: float) -> Leased:
        """Take a resource that nobody holds: never granted, or released. Its live holder gets the same lease again.

        Refused otherwise, also when the hold has passed: `takeover` is for that, with the epoch of this answer.
        """

    async def renew(self, name: str, fence: int, hold_s: float) -> bool:
        """Hold on for another `hold_s`. False: lost; an expired lease is not revived."""

    async def release(self, name: str, fence: int) -> bool:
        """Let go; the fence stays remembered. False: somebody else holds it by now."""

    async def takeover(self, name: str, holder: str, epoch: int, hold_s: float) -> Leased:
        """Take a resource whose hold has passed or that was released, if its epoch is still `epoch`: one
        compare-and-set to epoch + 1, with a fence above all before. Who sent this before and got it gets it again.
        `NotFound`: it was never acquired."""

    async def look(self, name: str) -> Lease | None:
        """The lease as it is now; None: it was never acquired."""

    def leases(self) -> AsyncIterator[Lease]:
        """All that are held, and those whose hold has passed and that nobody took over since; for people, and for those
        who look after what was lost. One that changes meanwhile is listed as it was before or after."""
