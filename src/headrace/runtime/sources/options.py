"""How the worker of a source behaves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.core.claims import HOLD_S, TIMEOUT_S
from headrace.core.errors import InvalidFlow
from headrace.core.retry import RetryPolicy
from headrace.core.sources import HeldItem, ItemSettlement
from headrace.runtime.answers import IGNORE, REFUSE
from headrace.runtime.failed_attempts import OnError

OnSettled = Callable[[HeldItem, ItemSettlement], object]


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How the worker of a source behaves.

    `name` stands in log lines and errors. `in_progress_max` items are held at a time, each for `hold_s` and renewed at
    a third of it. `poll_s`: how long after a poll that found all there was the next one comes. `timeout_s` and `retry`
    are for items that say nothing else of themselves. `grace_s`: how long a handler that is cancelled may take to end
    before it is given up. `drain_s`: how long handlers may go on after a drain before they are cancelled and their
    items given back. `returns` as in a stage. `on_error(error, attempt)` is called for each failed attempt and
    `on_settled(held, settlement)` for each settlement that was accepted, on the event loop: plain and quick functions.
    `id` names the holder and is made up when it is empty; two workers never share one. `quotes_errors`: log lines of
    failed attempts have what the error says; without it its class and its frames only, because a message may quote
    what was worked on. The settlement has the whole in any case.
    """

    name: str = "source"
    in_progress_max: int = 16
    hold_s: float = HOLD_S
    poll_s: float = 0.5
    timeout_s: float = TIMEOUT_S
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    grace_s: float = 1.0
    drain_s: float = 10.0
    returns: str = REFUSE
    id: str = ""
    quotes_errors: bool = True
    on_error: OnError | None = None
    on_settled: OnSettled | None = None

    def __post_init__(self) -> None:
        if min(self.hold_s, self.poll_s, self.timeout_s, self.grace_s) <= 0 or self.drain_s < 0:
            raise InvalidFlow(f"{self!r} cannot work", "all times must be above 0")
        if self.in_progress_max < 1 or self.returns not in (REFUSE, IGNORE):
            raise InvalidFlow(f"{self!r} cannot work", f"in_progress_max ≥ 1, returns {REFUSE!r} or {IGNORE!r}")
        for name in ("on_error", "on_settled"):
            call = getattr(self, name)
            if inspect.iscoroutinefunction(call) or not (call is None or callable(call)):
                raise InvalidFlow(f"{name}={call!r} is not a plain function of two values")

    @property
    def margin_s(self) -> float:
        """A handler is cancelled this long before its hold ends."""
        return self.hold_s / 10

    @property
    def answer_s_max(self) -> float:
        """A renewal or a settlement that was not answered is sent again after this: twice more within a hold."""
        return self.hold_s / 3
