"""Named resources and who holds them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lease:
    """A named resource as its store knows it.

    `fence` is that of the last grant and higher than all before. `epoch` counts the grants after the first: takeovers,
    and what followed a release. `holder` is empty after a release. `left_s` is what is left of the hold by the store's
    clock: 0 is over.
    """

    name: str
    holder: str
    fence: int
    epoch: int
    left_s: float

    @property
    def free(self) -> bool:
        return not self.holder or self.left_s <= 0


@dataclass(frozen=True, slots=True)
class Leased:
    """`granted` with its lease; or refused, and the lease says who holds it."""

    granted: bool
    lease: Lease
