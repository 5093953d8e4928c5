"""Named resources and who holds them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Lease:
    """A named resource as its store knows it.

    `fence` is that of the last grant and higher than all before. `epoch` counts the grants after the first: takeovers,
    and what followed a release. `holder` is empty after a release. `left_s` is what is left of the hold by the store's
    clock: 0 is over. `expire_at` is the end as the store has written it down, where that is a date.
    """

    name: str
    holder: str
    fence: int
    epoch: int
    left_s: float
    expire_at: datetime | None = None

    @property
    def free(self) -> bool:
        return not self.holder or self.left_s <= 0


@dataclass(frozen=True, slots=True)
class Leased:
    """`granted` with its lease; or refused, and the lease says who holds it. `repeated`: this holder was granted it
    before, and nothing was changed."""

    granted: bool
    lease: Lease
    repeated: bool = False


class LeaseVerb(StrEnum):
    """What is done to a lease; `next_seq` is the drawing of fences."""

    ACQUIRE = "acquire"
    RENEW = "renew"
    RELEASE = "release"
    TAKEOVER = "takeover"
    NEXT_SEQ = "next_seq"


class LeaseOutcome(StrEnum):
    """`failed`: there was no answer, or an error."""

    GRANTED = "granted"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class LeaseOperation:
    """One operation, for those who count. An `acquire` that takes over what has expired is a `takeover` as well."""

    op: LeaseVerb
    seconds: float
    outcome: LeaseOutcome
