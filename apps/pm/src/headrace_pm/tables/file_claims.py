"""Files as a source of work: rows of `file_processing_state`, each held by owner, epoch and until in `pm_file_claim`.

The claim's row is locked first, so what a hold reads of the file is newer than every settlement. The epoch rises with
every hold and goes to `pm_file_sink` in the same transaction: no earlier holder moves a checkpoint. Time is the
database's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import uuid4

from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, SourceFeatures, is_worker_lost
from headrace.tables import OpenTables, Ran, UnitOfWork

SINKS = ("mysql", "kafka")
SETTLED, GIVEN_BACK = "settled", "given back"
_STATES = {ItemState.DONE: "file_done", ItemState.AGAIN: "file_again", ItemState.DEAD: "file_dead"}


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file as its row says, read under the hold."""

    file_id: int
    epoch: int
    system_type: str
    ftp_server_key: str
    ftp_path: str
    file_name: str
    file_size: int | None
    mysql_processed: bool
    clickhouse_processed: bool
    revision: int
    version: int | None
    spool: str | None


class FileClaims:
    """`headrace.sources.Source` on the table of files. The row's `retry_count` are the attempts, its `max_retry` is the
    limit."""

    features = SourceFeatures(reports=False)

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def poll(self, count_max: int) -> Polled:
        found = await self._tables.rows("files_waiting", count_max=count_max)
        return Polled(tuple(ItemCandidate(str(number)) for (number,) in found))

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        key = {"id": int(candidate.key), "request": str(uuid4())}
        async with self._tables.transaction() as tx:
            _run(tx, "claim_begin", key)
            _run(tx, "claim_take", {**key, "owner": holder, "hold_us": _microseconds(hold_s)})
            _run(tx, "claim_state", key)
            tx.run_many("claim_sinks", [{**key, "sink": sink} for sink in SINKS])
            read = _run(tx, "claim_read", key)
        if not read.rows:
            return None
        epoch, attempts, attempts_max, losses, crashes, *row = read.rows[0]
        held = HeldFile(int(candidate.key), epoch, *row)
        return HeldItem(
            candidate.key,
            held,
            epoch,
            attempts or 0,
            attempts_max,
            suspect=losses >= self.features.suspected_after,
            crashes=crashes,
        )

    async def begin_alone(self, held: HeldItem) -> bool:
        return await self._changed("claim_alone", held)

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        return await self._changed("claim_renew", held, hold_us=_microseconds(hold_s))

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        failure = settlement.failure
        attempts = settlement.attempts
        if settlement.state is ItemState.DONE:
            # The row counts retries, and what is done was none.
            attempts = held.attempts
        due = datetime.fromtimestamp(settlement.decided_at + settlement.delay_s, UTC)
        is_due_later = settlement.state is ItemState.AGAIN
        return await self._ended(
            held,
            _STATES[settlement.state],
            SETTLED,
            attempts=attempts,
            error=failure.reason if failure else None,
            due_at=due if is_due_later else None,
            stays_suspect=is_worker_lost(settlement),
        )

    async def give_back(self, held: HeldItem) -> bool:
        values = {"attempts": held.attempts, "error": None, "due_at": None, "stays_suspect": True}
        return await self._ended(held, "file_again", GIVEN_BACK, **values)

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        """The table of files has no place for it."""
        return True

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def _ended(self, held: HeldItem, state: str, ended: str, **values: object) -> bool:
        key = {"id": int(held.key), "epoch": held.fence, **values, "ended": ended}
        async with self._tables.transaction() as tx:
            for name in ("claim_lock", state, "claim_end"):
                _run(tx, name, key)
            found = _run(tx, "claim_ended", key)
        return bool(found.rows)

    async def _changed(self, name: str, held: HeldItem, **values: object) -> bool:
        async with self._tables.transaction() as tx:
            ran = _run(tx, name, {"id": int(held.key), "epoch": held.fence, **values})
        return ran.count == 1


def _run(tx: UnitOfWork, name: str, values: Mapping[str, object]) -> Ran:
    return tx.run_many(name, (values,))


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
