"""What somebody who looks after the silver layer is told about its database."""

from __future__ import annotations

from headrace.commands import Check, bad, fine, warning
from headrace_silver.queue.backlog_flag import read_flag
from headrace_silver.stores.silver_store import FLAG, LOCK, SilverStore, present_tables


def examine(store: SilverStore) -> list[Check]:
    """The tables, the lock and the flag; changes nothing."""
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
    state = read_flag(store)
    if not state.on:
        return [
            *checks,
            fine("flag", f"{FLAG} is off, {f'written {state.updated_at}' if state.updated_at else 'never written'}"),
        ]
    found = f"{FLAG} is on since there was more backlog than the threshold, written {state.updated_at}"
    return [*checks, warning("flag", found, "headrace silver consume --drain")]
