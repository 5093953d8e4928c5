"""What somebody who looks after the silver layer is told about its database."""

from __future__ import annotations

from datetime import datetime

from headrace.commands import Check, bad, fine, warning
from headrace_silver.market.symbol_shapes import SUGGESTED_PATTERN
from headrace_silver.quality.assessment import suggested_pattern
from headrace_silver.queue.backlog_flag import read_flag
from headrace_silver.records.rules import SYMBOL_PATTERN_VARIABLE
from headrace_silver.stores.silver_store import FLAG, LOCK, SilverStore, present_tables


def examine(store: SilverStore, now: datetime, symbol_pattern: str) -> list[Check]:
    """The tables, the lock, the flag and what the pattern of symbols refuses; changes nothing."""
    tables = present_tables(store)
    if not tables.queue:
        return [bad("tables", "there is no table task_q", "headrace silver init")]
    checks = [fine("tables", f"are there ({store.dialect})")]
    if not tables.usable:
        found = "the tables silver_revision and silver_reject_day cannot be used: there is no history of bars"
        checks = [warning("tables", found, "headrace silver init as their owner, and GRANT")]
    elif not tables.whole:
        checks = [warning("tables", "tables of ours are missing: letters cannot be listed", "headrace silver init")]
    holder = store.holder()
    checks.append(fine("lock", f"{LOCK} is held by {holder}" if holder else f"{LOCK} is free"))
    return [*checks, _flag(store), *_symbols(store, now, symbol_pattern)]


def _flag(store: SilverStore) -> Check:
    state = read_flag(store)
    if not state.on:
        written = f"written {state.updated_at}" if state.updated_at else "never written"
        return fine("flag", f"{FLAG} is off, {written}")
    found = f"{FLAG} is on since there was more backlog than the threshold, written {state.updated_at}"
    return warning("flag", found, "headrace silver consume --drain")


def _symbols(store: SilverStore, now: datetime, symbol_pattern: str) -> list[Check]:
    note = suggested_pattern(store, now, symbol_pattern)
    if note is None:
        return []
    count, whole = note.values["count"], note.values["whole"]
    found = f"{count} of {whole} bars that the pattern refused name covered warrants, funds or shares with a digit"
    hint = f"{SYMBOL_PATTERN_VARIABLE}='{SUGGESTED_PATTERN}', then headrace silver dead redrive --rule ta_symbol"
    return [warning("symbols", found, hint)]
