"""Which faults a run has, how often each strikes, and how often it struck.

Every seed draws its own selection: some runs have one fault in plenty, some a little of all. A set of runs in which a
fault never struck has proved nothing about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

CALLS = ("delay", "drop", "unknown", "duplicate")
"""What may happen to a call on its way: it takes long, it never arrives, its answer is lost, it arrives twice."""

PROCESSES = ("kill", "pause", "block", "drain")
"""What may happen to a worker: kill -9, SIGSTOP past its hold, an event loop that is blocked, an orderly end."""

OTHERS = ("skew", "deaf", "heart", "operator", "poison")
"""A wall clock that jumps, a wake-up that is lost, a renewal that fails, an operator who cancels, pauses or redrives,
and an item that kills its process."""

KINDS = (*CALLS, *PROCESSES, *OTHERS)
RATES = (0.02, 0.05, 0.1, 0.2)


@dataclass(slots=True)
class Faults:
    """The faults of one run; `healed` ends them all."""

    chance: Random
    rates: dict[str, float]
    struck: Counter[str] = field(default_factory=Counter)
    healed: bool = False

    @classmethod
    def draw(cls, chance: Random, kinds: Sequence[str] = KINDS) -> Faults:
        share = chance.choice((0.2, 0.5, 0.8))
        rates = {kind: chance.choice(RATES) for kind in kinds if chance.random() < share}
        return cls(chance, rates)

    def has(self, kind: str) -> bool:
        return not self.healed and kind in self.rates

    def strikes(self, kind: str) -> bool:
        if self.healed:
            return False
        rate = self.rates.get(kind)
        if rate is None or self.chance.random() >= rate:
            return False
        self.struck[kind] += 1
        return True

    def __str__(self) -> str:
        return " ".join(f"{kind}={rate}" for kind, rate in self.rates.items()) or "none"
