"""What somebody who looks after a store is told about it: one thing looked at, in one sentence, with the way out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

SWEPT_WITHIN_S = 5.0


class Health(StrEnum):
    """`bad` loses data or stops the work; `warning` may do so later, or slows it down."""

    OK = "ok"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `hint` says what to do about it, as a command where there is one."""

    name: str
    state: Health
    found: str
    hint: str = ""


def fine(name: str, found: str) -> Check:
    return Check(name, Health.OK, found)


def warning(name: str, found: str, hint: str) -> Check:
    return Check(name, Health.WARNING, found, hint)


def bad(name: str, found: str, hint: str) -> Check:
    return Check(name, Health.BAD, found, hint)


def expired_claims(count: int, oldest_s: float) -> Check:
    """Claims that ran out and that nobody has swept. Every worker sweeps within a second."""
    if count and oldest_s > SWEPT_WITHIN_S:
        found = f"{count:,} claims ran out, the oldest {oldest_s:,.0f} s ago, and nobody sweeps them"
        return warning("claims", found, "start a worker: headrace worker app:flow")
    return fine("claims", "none has run out unswept")
