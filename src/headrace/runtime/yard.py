"""What the lanes of one worker share."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from headrace.core.claims import HOLD_S
from headrace.core.errors import InvalidFlow
from headrace.runtime.failed_attempts import OnError, Reporter
from headrace.runtime.observe import Observer
from headrace.runtime.outages import Outages
from headrace.runtime.seams import Seams
from headrace.runtime.slices import Slice

TURN_S = 0.005


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker behaves.

    `hold_s`: for how long a claim is held without a renewal. `poll_s`: how long an idle worker trusts that it would be
    woken. `partial_s`: how often a long slice settles what it has. `grace_s`: how long a handler that is cancelled may
    take to end before its lane is given up. `id` is made up when it is empty. `on_error(error, attempt)` is called on
    the event loop for each failed attempt, with a `FailedAttempt`: a plain and quick function, as a tool that collects
    errors has one.
    """

    hold_s: float = HOLD_S
    poll_s: float = 1.0
    partial_s: float = 1.0
    grace_s: float = 1.0
    id: str = ""
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        if inspect.iscoroutinefunction(self.on_error) or not (self.on_error is None or callable(self.on_error)):
            raise InvalidFlow(f"on_error={self.on_error!r} is not a plain function of an error and an attempt")
        if min(self.hold_s, self.poll_s, self.partial_s, self.grace_s) <= 0:
            raise InvalidFlow(f"{self!r} cannot work", "all times must be above 0")


class Why(Enum):
    """Why a handler was interrupted."""

    TIMEOUT = auto()
    LOST = auto()
    STOP = auto()


class Yard:
    """Shared by all lanes: the world, the claims held, and whose turn it is."""

    __slots__ = (
        "_dry_until",
        "_waiting",
        "bell",
        "draining",
        "dry",
        "failure",
        "held",
        "moved_at",
        "observer",
        "options",
        "outages",
        "over",
        "reporter",
        "rings",
        "seams",
        "stopping",
        "turn_until",
    )

    def __init__(self, seams: Seams, options: WorkerOptions, observer: Observer) -> None:
        self.seams, self.options, self.observer = seams, options, observer
        self.reporter = Reporter(observer, options.on_error)
        self.outages = Outages(seams.chance, observer, seams.clock.monotonic)
        self.held: dict[int, Slice] = {}
        self.bell = asyncio.Event()
        # Stages of which the store had nothing the last time: not asked for again before something rings.
        self.dry: set[tuple[str, str]] = set()
        self._dry_until = 0.0
        self.rings = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self.draining = self.stopping = self.over = False
        self.failure: BaseException | None = None
        self.turn_until = 0.0
        # When the store last answered, or failed to: a worker that gets on hears of it all the time.
        self.moved_at = self.now()

    def now(self) -> float:
        return self.seams.clock.monotonic()

    def moved(self) -> None:
        self.moved_at = self.now()

    async def next_turn(self) -> None:
        """Let everybody else run. The turn is shared: however many lanes there are, the loop is back every few ms."""
        await asyncio.sleep(0)
        now = self.now()
        if now >= self.turn_until:
            self.turn_until = now + TURN_S

    @property
    def margin_s(self) -> float:
        """A claim is dropped this long before its hold ends."""
        return self.options.hold_s / 10

    def ring(self) -> None:
        """Work may be available."""
        self.rings += 1
        self.dry.clear()
        self.bell.set()

    def ran_dry(self, stages: set[tuple[str, str]], for_s: float) -> None:
        """The store has nothing of these stages now; look again after `for_s`, whoever else keeps the bell busy."""
        until = self.now() + for_s
        self._dry_until = min(self._dry_until, until) if self.dry else until
        self.dry |= stages

    def look_again(self) -> None:
        if self.dry and self.now() >= self._dry_until:
            self.dry.clear()

    async def wait_bell(self) -> None:
        """Until the bell rings, or until it is time to look again: at what was dry, or whether an outage is over."""
        moments = [self.outages.next_at(), self._dry_until if self.dry else None]
        first = min((moment for moment in moments if moment is not None), default=None)
        try:
            async with asyncio.timeout(None if first is None else max(0.0, first - self.now())):
                await self.bell.wait()
        except TimeoutError:
            self.dry.clear()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true of what is held."""
        while not true():
            answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((true, answer))
            await answer

    def tell(self) -> None:
        """What is held has changed: wake those who wait for just this."""
        waiting, self._waiting = self._waiting, []
        for true, answer in waiting:
            if answer.done():
                continue
            if true():
                answer.set_result(None)
            else:
                self._waiting.append((true, answer))

    def hold(self, work: Slice) -> None:
        self.held[work.fence] = work
        if len(self.held) == 1:
            self.tell()

    def let_go(self, work: Slice) -> None:
        self.held.pop(work.fence, None)
        self.bell.set()
        self.tell()

    def fail(self, error: BaseException) -> None:
        """Something that must never end has ended: the worker gives up and says why."""
        self.failure = self.failure or error
        self.tell()
