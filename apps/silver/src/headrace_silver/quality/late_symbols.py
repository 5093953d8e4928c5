"""Which symbols lack a bar that they should have by now: to be asked before the market opens.

A symbol is late if its last bar is older than the last closed trading day. One that has had none for many days has
stopped trading (delisted, suspended): it is listed apart, so that it does not ring for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headrace_silver.market import calendar
from headrace_silver.market.notes import Note
from headrace_silver.quality.assessment import Known, known_symbols
from headrace_silver.quality.values import STOPPED_AFTER
from headrace_silver.report.text import note_text
from headrace_silver.report.words import ENGLISH
from headrace_silver.stores.silver_store import SilverStore


@dataclass(frozen=True, slots=True)
class Late:
    """`day` is the last closed trading day; `known` counts the symbols that still trade."""

    day: date
    known: int
    late: Sequence[Known]
    stopped: Sequence[Known]
    notes: Sequence[Note]

    @property
    def ok(self) -> bool:
        """A store without any bar is not in order either."""
        return self.known > 0 and not self.late


def late(store: SilverStore, now: datetime, days: int = 1, stopped_after: int = STOPPED_AFTER) -> Late:
    """The symbols that are at least so many trading days behind, the latest first."""
    day = calendar.last_closed_day(now)
    known = known_symbols(store, now)
    behind = sorted(known, key=lambda entry: (-entry.behind, entry.symbol))
    stopped = [entry for entry in behind if entry.behind > stopped_after]
    return Late(
        day=day,
        known=len(known) - len(stopped),
        late=[entry for entry in behind if days <= entry.behind <= stopped_after],
        stopped=stopped,
        notes=calendar.doubts(day, day),
    )


def document(found: Late) -> dict[str, Any]:
    """For scripts, with stable keys."""
    return {
        "ok": found.ok,
        "day": found.day.isoformat(),
        "symbols": found.known,
        "late": [_entry(known) for known in found.late],
        "stopped": [_entry(known) for known in found.stopped],
        "notes": [note_text(ENGLISH, note) for note in found.notes],
    }


def _entry(known: Known) -> dict[str, Any]:
    return {"symbol": known.symbol, "last_day": known.last_day.isoformat(), "days_behind": known.behind}
