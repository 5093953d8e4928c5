"""What passes between a bus and those who consume from it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import CallerError, TooLarge
from headrace.core.events import Event
from headrace.core.parcels import KEY_CHARS_MAX
from headrace.core.topics import check_pattern

DELIVERIES_MAX = 5
PATTERNS_MAX = 100
RECEIVE_MAX = 1_000
REASON_CHARS_MAX = 1_000
CONSUMER_LOST = "consumer_lost"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A durable, named wish for topics. Its consumers share what comes; another subscription gets its own copy.

    A message whose handling failed `deliveries_max` times becomes a dead letter of the subscription.
    """

    name: str
    patterns: tuple[str, ...]
    deliveries_max: int = DELIVERIES_MAX

    def __post_init__(self) -> None:
        if not self.name or not self.patterns or self.deliveries_max < 1:
            raise CallerError(f"{self!r} cannot work", "a name, one pattern or more, deliveries_max ≥ 1")
        if len(self.name) > KEY_CHARS_MAX:
            raise TooLarge(f"a subscription's name of {len(self.name):,} characters is over {KEY_CHARS_MAX=}")
        if len(self.patterns) > PATTERNS_MAX:
            raise TooLarge(f"{len(self.patterns)} patterns are over PATTERNS_MAX = {PATTERNS_MAX}")
        for pattern in self.patterns:
            check_pattern(pattern)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message in the hands of one consumer, until its hold time passes.

    `deliveries` counts this one too, `failures` those that failed. `alone` marks a message whose last consumer was
    lost with it: it is handled with nothing else started, so that only the guilty one is charged.
    """

    subscription: str
    number: int
    fence: int
    event: Event
    deliveries: int = 1
    failures: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """The answer to a receive. `wait_s`: when something delayed or held may come back (None: nothing will)."""

    deliveries: tuple[Delivery, ...] = ()
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that a subscription gave up, and why."""

    subscription: str
    event: Event
    reason: str
    deliveries: int
    died_at: float


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a subscription has before it: `waiting` includes delayed messages."""

    waiting: int = 0
    held: int = 0
    dead: int = 0
