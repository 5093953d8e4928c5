"""Values of a request with an Idempotency-Key, for those who serve it and for those who keep it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Answer:
    """What is told again, byte for byte."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request with a key. `seed` is what its ids derive from if it is the first; `holder` tells its own repeats
    from those of others."""

    tenant: str
    key: str
    fingerprint: str
    seed: str
    holder: str
    hold_s: float


@dataclass(frozen=True, slots=True)
class Begun:
    """`granted`: run it, with this seed. `in_flight`: another is at it. `answered`: here is the answer. `other`: the
    key was used for something else."""

    state: Literal["granted", "in_flight", "answered", "other"]
    seed: str = ""
    answer: Answer | None = None
