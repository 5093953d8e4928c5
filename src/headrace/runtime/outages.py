"""Outages of what a handler needs, a sink, a bus, another store: waited out, like one of the worker's own store.

An error that heals says nothing about the item that met it. So it spends no attempt: the item waits, and a circuit
breaker keeps its stage from claiming what would meet the same. *Closed*, all is well. *Open*, nothing of the stage is
started until a pause is over, which grows with every failure. *Half open*, one item is tried, and how it ends decides.
So whoever is down is asked once per pause by each worker process, however much waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.core.backoff import Backoff
from headrace.core.errors import HeadraceError
from headrace.core.redaction import redacted_text
from headrace.core.retry import RetryPolicy
from headrace.ports.seams import Chance
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pauses

# Every try costs an item a move in the account, so the pauses are longer than those of a call that is simply repeated.
TRIES = Backoff(0.1, 5.0)


class Guarded(Protocol):
    """What has a circuit breaker: a stage of a flow, or a source, whose flow is empty."""

    @property
    def flow(self) -> str: ...

    @property
    def name(self) -> str: ...


class CircuitBreaker:
    """Of one stage of one worker, or of whatever an application asks again and again. `on_open` stops what was claimed
    and not started."""

    __slots__ = ("_failures", "_failures_before", "_open_until", "_pauses", "on_open", "trial")

    def __init__(self, chance: Chance | None = None, backoff: Backoff = TRIES) -> None:
        self._pauses = Pauses(chance, backoff)
        self._open_until: float | None = None
        self._failures = self._failures_before = 0
        # The fence of the claim that is tried while half open.
        self.trial = 0
        self.on_open: Callable[[], None] = lambda: None

    @property
    def closed(self) -> bool:
        return self._open_until is None

    def open_at(self, now: float) -> bool:
        return self._open_until is not None and now < self._open_until

    def opens_until(self, now: float) -> float | None:
        """When it will be half open; None if it is, or is closed."""
        return self._open_until if self.open_at(now) else None

    def fail(self, now: float) -> tuple[float, bool]:
        """An item met the outage: how long it waits, and whether a new pause begins. Those that fail in one pause share
        it."""
        self._failures += 1
        begins = not self.open_at(now)
        if begins:
            self._open_until = now + self._pauses.next_s()
            self.on_open()
        assert self._open_until is not None, "set when the pause began"
        return self._open_until - now, begins

    def begin(self, fence: int) -> None:
        """A claim was granted; if it is half open, this is the trial."""
        if not self.closed:
            self.trial, self._failures_before = fence, self._failures

    def passed(self, fence: int) -> bool:
        """An item of a claim has ended. Whether that was the trial, and it met no outage: then it is closed."""
        if self.closed or fence != self.trial or self._failures != self._failures_before:
            return False
        self._open_until = None
        self._pauses.reset()
        return True


class Outages:
    """The circuit breakers of one worker, by flow and stage."""

    def __init__(self, chance: Chance, observer: Observer, now: Callable[[], float]) -> None:
        self._chance, self._observer, self._now = chance, observer, now
        self._breakers: dict[tuple[str, str], CircuitBreaker] = {}

    def breaker(self, stage: Guarded) -> CircuitBreaker:
        name = (stage.flow, stage.name)
        if name not in self._breakers:
            self._breakers[name] = CircuitBreaker(self._chance)
        return self._breakers[name]

    def found_in(self, error: BaseException, policy: RetryPolicy) -> BaseException | None:
        """The error if it is an outage and nothing else, also as a group of them. A policy that names the class of such
        an error, or one of its own bases in the tree, has the last word."""
        if isinstance(error, BaseExceptionGroup):
            found = [self.found_in(inner, policy) for inner in error.exceptions]
            return found[0] if all(found) else None
        if not isinstance(error, HeadraceError) or not error.heals:
            return None
        named = any(kind in policy.per for kind in type(error).__mro__ if issubclass(kind, HeadraceError))
        return None if named else error

    def failed(self, stage: Guarded, error: BaseException) -> float:
        """An item of a stage met an outage: how long it waits."""
        pause_s, begins = self.breaker(stage).fail(self._now())
        if begins:
            self._observer.event(
                "sink.failing",
                flow=stage.flow,
                stage=stage.name,
                error=type(error).__name__,
                detail=redacted_text(str(error)),
                wait_s=round(pause_s, 3),
            )
        return pause_s

    def passed(self, stage: Guarded, fence: int) -> None:
        """An item of this claim has ended, somehow."""
        if self.breaker(stage).passed(fence):
            self._observer.event("sink.recovered", flow=stage.flow, stage=stage.name)

    def next_at(self) -> float | None:
        """When the next breaker will be half open; None if none is open."""
        now = self._now()
        return min((at for b in self._breakers.values() if (at := b.opens_until(now)) is not None), default=None)
