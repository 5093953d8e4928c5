"""How far this machine's clock is from the coordinator's.

`expire_at` is written from the client's clock, so a client whose clock is wrong loses its locks early or holds on to
them too long: it refuses to begin. The best of several samples counts, the one with the shortest round trip; half of
that trip is what the sample may be wrong by, and is given to the client's favour.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from headrace.adapters.cassandra.session import CassandraSession
from headrace.core.errors import ClockSkewed, suppress_healing
from headrace.ports.seams import Clock

SAMPLES = 5
EVERY_S = 60.0
SKEW_S_MIN = 0.25
"""Less than this cannot be told from a busy machine."""
HOLD_SHARE = 0.1
# A time-based identifier counts 100 ns from the beginning of the Gregorian calendar.
_GREGORIAN = 0x01B21DD213814000
_TICKS_S = 10_000_000


@dataclass(frozen=True, slots=True)
class Skew:
    """`offset_s` is how far this clock is ahead; `error_s` how wrong that may be."""

    offset_s: float = 0.0
    error_s: float = 0.0

    @property
    def sure_s(self) -> float:
        """What the clocks differ by at least."""
        return max(0.0, abs(self.offset_s) - self.error_s)

    def allows(self, hold_s: float) -> bool:
        return self.sure_s <= max(hold_s * HOLD_SHARE, SKEW_S_MIN)


class SkewGauge:
    """Measures at the start and every minute; `skew` is the last measurement."""

    def __init__(self, session: CassandraSession, clock: Clock, every_s: float = EVERY_S) -> None:
        self._session, self._clock, self._every_s = session, clock, every_s
        self.skew = Skew()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.measure()
        self._running = asyncio.create_task(self._run())

    async def measure(self) -> Skew:
        samples = [await self._sample() for _ in range(SAMPLES)]
        self.skew = min(samples, key=lambda sample: sample.error_s)
        return self.skew

    def check(self, hold_s: float) -> None:
        """Refuse to work with a clock that is too far off for this hold."""
        if not self.skew.allows(hold_s):
            way = "ahead of" if self.skew.offset_s > 0 else "behind"
            raise ClockSkewed(
                f"the clock here is {abs(self.skew.offset_s):.3f} s {way} the Cassandra coordinator's, "
                f"and {max(hold_s * HOLD_SHARE, SKEW_S_MIN):g} s is the limit",
                "set the clock, e.g. by NTP; it is compared every minute",
            )

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            with suppress_healing():
                await self.measure()

    async def _sample(self) -> Skew:
        asked_at, began = self._clock.wall(), self._clock.monotonic()
        ((moment,),) = (await self._session.run("coordinator_now")).rows
        trip_s = self._clock.monotonic() - began
        there = (moment.time - _GREGORIAN) / _TICKS_S
        return Skew(asked_at + trip_s / 2 - there, trip_s / 2)
