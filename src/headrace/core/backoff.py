"""Backoff: how long to wait after failures in a row. The only formula of it; everything that waits longer each time
uses this value, a loop by way of `runtime/pacing`."""

from __future__ import annotations

from dataclasses import dataclass

# Beyond this every pause has long reached its limit, and a power could leave the range of a number.
EXPONENT_MAX = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_s`, then `factor` times the one before, at most `max_s`; each is shortened by up to `jitter` of itself."""

    first_s: float
    max_s: float
    factor: float = 2.0
    jitter: float = 0.5

    def pause_s(self, failures: int, chance: float = 0.0) -> float:
        """The pause after so many failures in a row, from 1 on; `chance` in [0, 1) spreads those who fail together."""
        whole = self.first_s * self.factor ** min(max(failures - 1, 0), EXPONENT_MAX)
        return float(min(self.max_s, whole) * (1 - self.jitter * chance))
