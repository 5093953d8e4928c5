"""What shall go wrong, when and for how long: drawn from a seed before anything starts.

Faults of one lane follow each other, those of different lanes meet. One lane has the nodes, so that of three one is
down at a time and two decide. A fault that comes late (a node needs a while to start) is late; none is left out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What is done to a run of the scheduler."""

    WORKER_KILL = "worker_kill"
    WORKER_FREEZE = "worker_freeze"
    RECONCILER_KILL = "reconciler_kill"
    NODE_KILL = "node_kill"
    NODE_PAUSE = "node_pause"
    LINK_CUT = "link_cut"
    LINK_DELAY = "link_delay"
    ANSWER_LOST = "answer_lost"
    CLOCK_OFF = "clock_off"
    CLOCK_REFUSED = "clock_refused"
    CLOCK_JUMP = "clock_jump"


MEANINGS: Mapping[FaultKind, str] = {
    FaultKind.WORKER_KILL: "a worker is killed with -9",
    FaultKind.WORKER_FREEZE: "a worker is stopped for longer than its locks last, and goes on",
    FaultKind.RECONCILER_KILL: "a reconciler is killed with -9",
    FaultKind.NODE_KILL: "a Cassandra node is killed with -9, and started again",
    FaultKind.NODE_PAUSE: "a Cassandra node is stopped: connections stay open and nothing answers",
    FaultKind.LINK_CUT: "all connections to a node are reset, and new ones refused",
    FaultKind.LINK_DELAY: "everything to and from a node arrives later",
    FaultKind.ANSWER_LOST: "a statement about a job's lock arrives, and its answer is cut off",
    FaultKind.CLOCK_OFF: "a worker's clock is off by less than is allowed: it works",
    FaultKind.CLOCK_REFUSED: "a worker's clock is off by more: it must run nothing",
    FaultKind.CLOCK_JUMP: "the clock of a worker jumps while it works, before it is compared again",
}
LANES: tuple[tuple[FaultKind, ...], ...] = (
    (FaultKind.WORKER_KILL, FaultKind.RECONCILER_KILL),
    (FaultKind.WORKER_FREEZE,),
    (FaultKind.NODE_KILL, FaultKind.NODE_PAUSE),
    (FaultKind.LINK_CUT, FaultKind.LINK_DELAY, FaultKind.ANSWER_LOST),
    (FaultKind.CLOCK_OFF,),
    (FaultKind.CLOCK_REFUSED,),
    (FaultKind.CLOCK_JUMP,),
)
Range = tuple[float, float]
DELAY_S = (0.02, 0.4)
# As parts of the time to live of a lock. A clock may be off by a tenth, and by 250 ms in any case.
FROZEN, OFF, REFUSED, JUMP = (1.3, 2.5), (0.02, 0.06), (0.5, 100.0), (0.5, 5.0)


@dataclass(frozen=True, slots=True)
class ChaosSize:
    """How much goes wrong, and for how long. `seconds` are those over which the faults begin; `broken_s` is how long a
    node or a link is broken, around the few seconds after which the others notice; `clock_lives` how long a worker with
    a wrong clock lives, and `ahead_max` by how much a clock may jump ahead, both as parts of the time to live of a
    lock; `long_s` by how much longer than that a long job takes: its worker is lost before, and its effect comes after
    the next run has begun.

    A small size ends soon without a fault less: a lock that was taken by a clock ahead stays so much longer behind its
    worker, and everybody waits for the last long job."""

    targets: Mapping[FaultKind, int]
    seconds: float
    broken_s: Range = (1.5, 8.0)
    clock_lives: Range = (1.5, 3.0)
    ahead_max: float = JUMP[1]
    long_s: Range = (2.0, 12.0)


SMALL = ChaosSize(
    dict.fromkeys(FaultKind, 1) | {FaultKind.WORKER_KILL: 3},
    seconds=10.0,
    broken_s=(1.5, 4.0),
    clock_lives=(1.0, 1.5),
    ahead_max=1.5,
    long_s=(2.0, 5.0),
)
FULL = ChaosSize(
    {
        FaultKind.WORKER_KILL: 210,
        FaultKind.WORKER_FREEZE: 34,
        FaultKind.RECONCILER_KILL: 15,
        FaultKind.NODE_KILL: 11,
        FaultKind.NODE_PAUSE: 11,
        FaultKind.LINK_CUT: 15,
        FaultKind.LINK_DELAY: 15,
        FaultKind.ANSWER_LOST: 40,
        FaultKind.CLOCK_OFF: 8,
        FaultKind.CLOCK_REFUSED: 8,
        FaultKind.CLOCK_JUMP: 8,
    },
    seconds=900.0,
)
SIZES = {"small": SMALL, "full": FULL}


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """`victim` chooses among those there are at the time; `size` is a delay or an offset of a clock in seconds."""

    kind: FaultKind
    at_s: float
    victim: int
    lasts_s: float
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """`lanes` have their faults in order of time."""

    seed: int
    seconds: float
    size: ChaosSize
    lanes: tuple[tuple[PlannedFault, ...], ...]


def plan_faults(seed: int, seconds: float, ttl_s: float, size: ChaosSize) -> FaultPlan:
    """The same for the same arguments."""
    chance = random.Random(seed)
    lanes = []
    for kinds in LANES:
        drawn = [fault for kind in kinds for fault in _drawn(chance, kind, seconds, ttl_s, size)]
        lanes.append(tuple(sorted(drawn, key=lambda fault: fault.at_s)))
    return FaultPlan(seed, seconds, size, tuple(lanes))


def _drawn(chance: random.Random, kind: FaultKind, seconds: float, ttl_s: float, size: ChaosSize) -> list[PlannedFault]:
    count = size.targets.get(kind, 0)
    return [
        PlannedFault(
            kind,
            seconds * (number + chance.random()) / count,
            chance.randrange(1_000_000),
            *_measures(chance, kind, ttl_s, size),
        )
        for number in range(count)
    ]


def _measures(chance: random.Random, kind: FaultKind, ttl_s: float, size: ChaosSize) -> tuple[float, float]:
    """How long it lasts, and how much of it there is."""
    sign = chance.choice((-1, 1))
    match kind:
        case FaultKind.WORKER_FREEZE:
            return ttl_s * chance.uniform(*FROZEN), 0.0
        case FaultKind.LINK_DELAY:
            return chance.uniform(*size.broken_s), chance.uniform(*DELAY_S)
        case FaultKind.CLOCK_OFF:
            return ttl_s * chance.uniform(*size.clock_lives), sign * ttl_s * chance.uniform(*OFF)
        case FaultKind.CLOCK_REFUSED:
            return ttl_s * chance.uniform(*size.clock_lives), sign * ttl_s * chance.uniform(*REFUSED)
        case FaultKind.CLOCK_JUMP:
            far = JUMP[1] if sign < 0 else size.ahead_max
            return ttl_s * chance.uniform(*size.clock_lives), sign * ttl_s * chance.uniform(JUMP[0], far)
        case _:
            return chance.uniform(*size.broken_s), 0.0
