"""The client's clock is compared with the coordinator's, and a client that is too far off does not begin."""

from __future__ import annotations

import pytest
from lock_clients import resource
from waiting import eventually

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.skew import Skew, SkewGauge
from headrace.core.errors import ClockSkewed
from headrace.runtime.seams import RealClock

HOUR_S = 3_600.0


class WrongClock(RealClock):
    """A machine whose time is off."""

    def __init__(self, off_s: float) -> None:
        self.off_s = off_s

    def wall(self) -> float:
        return super().wall() + self.off_s


@pytest.mark.parametrize(
    ("offset_s", "error_s", "hold_s", "allowed"),
    [
        (0.0, 0.0, 1.0, True),
        (0.25, 0.0, 1.0, True),
        (0.26, 0.0, 1.0, False),
        (-0.26, 0.0, 1.0, False),
        (-0.26, 0.02, 1.0, True),
        (2.9, 0.0, 30.0, True),
        (3.1, 0.0, 30.0, False),
        (HOUR_S, 0.5, 30.0, False),
    ],
)
def test_the_limit_is_a_tenth_of_the_hold_and_at_least_a_quarter_of_a_second(
    offset_s: float, error_s: float, hold_s: float, allowed: bool
) -> None:
    assert Skew(offset_s, error_s).allows(hold_s) is allowed


@pytest.mark.parametrize(("off_s", "way"), [(HOUR_S, "ahead of"), (-HOUR_S, "behind")])
async def test_a_clock_an_hour_off_is_refused_and_may_only_let_go(
    session: CassandraSession, off_s: float, way: str
) -> None:
    name, clock = resource(), WrongClock(0.0)
    leases = CassandraLeases(session, clock=clock)
    await leases.start()
    held = (await leases.acquire(name, "a", 30.0)).lease
    assert leases.skew.sure_s < 0.25
    clock.off_s = off_s
    await leases.measure()
    assert leases.skew.offset_s == pytest.approx(off_s, abs=1.0)
    with pytest.raises(ClockSkewed, match=f"{way} the Cassandra coordinator's, and 3 s is the limit"):
        await leases.acquire(name, "a", 30.0)
    with pytest.raises(ClockSkewed):
        await leases.renew(name, held.fence, 30.0)
    with pytest.raises(ClockSkewed):
        await leases.takeover(name, "b", held.epoch, 30.0)
    assert await leases.release(name, held.fence)
    clock.off_s = 0.0
    await leases.measure()
    assert (await leases.acquire(name, "a", 30.0)).granted
    await leases.stop()


async def test_clocks_are_compared_again_and_again(session: CassandraSession) -> None:
    clock = WrongClock(0.0)
    gauge = SkewGauge(session, clock, every_s=0.01)
    await gauge.start()
    gauge.check(30.0)
    clock.off_s = HOUR_S
    await eventually(lambda: gauge.skew.sure_s > HOUR_S - 1, "the next comparison finds it")
    await gauge.stop()
