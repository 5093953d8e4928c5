"""The alerts of the text, as log lines with its words. Prometheus has the same in `infra/prometheus/pm_rules.yml`.

5,000 files come at once every five minutes, so many are pending then by design: only what lasts is told. One that goes
on is told again every ten minutes, so that a log shows it without being full of it.
"""

from __future__ import annotations

from dataclasses import dataclass

PENDING_MAX, ERROR_MAX = 1_000, 100
PENDING_LASTS_S = 600.0
TOLD_AGAIN_S = 600.0


@dataclass(frozen=True, slots=True)
class FileFigures:
    """What alerts look at."""

    pending: int
    errors: int
    stuck: int


class PipelineAlerts:
    """What is wrong by now. Moments are those of one clock that never goes back."""

    def __init__(self) -> None:
        self._pending_since: float | None = None
        self._told: dict[str, float] = {}

    def due(self, figures: FileFigures, now: float) -> list[str]:
        """The lines to log at this moment."""
        pending, errors, stuck = figures.pending, figures.errors, figures.stuck
        if pending <= PENDING_MAX:
            self._pending_since = None
        elif self._pending_since is None:
            self._pending_since = now
        lasts = self._pending_since is not None and now - self._pending_since >= PENDING_LASTS_S
        found = {
            "pending": (lasts, f"ALERT: Too many pending files: {pending}"),
            "error": (errors > ERROR_MAX, f"ALERT: Too many error files: {errors}"),
            "stuck": (stuck > 0, f"ALERT: {stuck} files stuck for > 2 hours"),
        }
        return [line for name, (holds, line) in found.items() if self._is_told(name, holds, now)]

    def _is_told(self, name: str, holds: bool, now: float) -> bool:
        if not holds:
            self._told.pop(name, None)
            return False
        if name in self._told and now - self._told[name] < TOLD_AGAIN_S:
            return False
        self._told[name] = now
        return True
