"""What a handler of a source's item runs with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.errors import ClaimLost, HeadraceError
from headrace.core.sources import HeldItem

if TYPE_CHECKING:
    from headrace.runtime.sources.calls import SourceCalls
    from headrace.runtime.sources.holds import Hold

# People look at progress; more often than this they see nothing more, and each report is a write. Nor does a handler
# wait any longer for one.
REPORT_S = 1.0


class SourceContext:
    """The item of one handler call: its key, fence and attempt, its time, and what it tells on the way.

    `result` may be set by the handler and travels with the settlement. `log` is a structlog logger that names the item.
    """

    __slots__ = ("_calls", "_ends_at", "_hold", "_reported_at", "closed", "log", "result")

    def __init__(self, hold: Hold, calls: SourceCalls, ends_at: float) -> None:
        self._hold, self._calls, self._ends_at = hold, calls, ends_at
        self._reported_at: float | None = None
        self.result: Any = None
        # Nothing of what a handler that was given up still says counts.
        self.closed = False
        self.log = calls.observer.bound(key=self.key, fence=self.fence, attempt=self.attempt)

    @property
    def held(self) -> HeldItem:
        return self._hold.held

    @property
    def key(self) -> str:
        return self._hold.held.key

    @property
    def fence(self) -> int:
        """Belongs into every write to a sink that can refuse an old one."""
        return self._hold.held.fence

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._hold.held.attempts + 1

    @property
    def left_s(self) -> float:
        """What is left of the handler's time, in seconds."""
        return max(0.0, self._ends_at - self._calls.now())

    def check(self) -> None:
        """Raise `ClaimLost` if the hold has ended; for a handler that computes for long without awaiting."""
        if self.closed or self._hold.over():
            raise ClaimLost(f"the hold of {self.key} was lost", self.fence)

    async def report(self, progress: Mapping[str, object]) -> None:
        """Tell people how far it is. At most one report a second is sent, and one that fails is left out."""
        self.check()
        now, calls = self._calls.now(), self._calls
        if not calls.source.features.reports or (self._reported_at is not None and now - self._reported_at < REPORT_S):
            return
        self._reported_at = now
        try:
            kept = await calls.ask("report", calls.source.report(self.held, progress), REPORT_S)
        except HeadraceError as error:
            if not error.heals:
                raise
            calls.failing("report", error)
            return
        if not kept:
            self._hold.lose("refused")
