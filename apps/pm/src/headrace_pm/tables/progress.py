"""How far a held file has come, written under its hold: each step is one transaction, and none if the hold is lost.

    claimed DOWNLOADING -> downloaded PARSING -> parsed PROCESSING -> one sink PARTIAL_DONE -> settled COMPLETED

Once a sink has all of a file its row says PARTIAL_DONE until it is settled, also while it is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.errors import ClaimLost
from headrace.tables import OpenTables, Ran, UnitOfWork
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.kafka.records import FileRevision
from headrace_pm.tables.checkpoints import checkpoint_values
from headrace_pm.tables.file_claims import HeldFile
from headrace_pm.tables.steps import run

_SINK_DONE = {"mysql": "file_mysql_done", "kafka": "file_kafka_done"}
ERROR_CHARS_MAX = 4_000


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file whose content is known: its revision may be another one now, and its sinks may begin anew.

    `is_same`: both sinks have all of this content from an earlier upload. The file is done without being read.
    """

    held: HeldFile
    is_same: bool


class FileProgress:
    """Every method raises `ClaimLost` if the hold has ended; then nothing was written."""

    def __init__(self, tables: OpenTables, spool_name: str) -> None:
        self._tables, self._spool = tables, spool_name

    async def downloaded(self, held: HeldFile, stamp: Stamp, digest: bytes, size: int) -> FetchedFile:
        """All of it is in our spool: what it is, and which revision that makes it. Go on with the answer's `held`."""
        values = {**_key(held), "spool": self._spool, "digest": digest, "size": size, "fetched": str(stamp)}
        async with self._tables.transaction() as tx:
            tx.run("claim_lock", id=held.file_id)
            ran = run(tx, "file_downloaded", values)
            # The first revision of a name that nobody has read is neither the same as one before nor another one.
            for name in _JUDGEMENT if held.was_read or held.revision > 1 else _FIRST_READ:
                run(tx, name, values)
            read = run(tx, "file_fetched", values)
        _insist(ran, held)
        if not read.rows:
            raise _lost(held)
        revision, version, in_mysql, in_clickhouse = read.rows[0]
        flags = {"mysql_processed": in_mysql, "clickhouse_processed": in_clickhouse}
        now = replace(held, revision=revision, version=version, file_size=size, spool=self._spool, **flags)
        return FetchedFile(now, is_same=revision < held.revision)

    async def parsed(self, held: HeldFile, counters: int, batches: int, batch_size: int) -> None:
        """It was read through, nothing is wrong with it, and it has so many counters in so many batches. If those of
        an earlier reader had another size, its checkpoints say nothing of these."""
        values = {**_key(held), "counters": counters, "batches": batches, "batch_size": batch_size}
        async with self._tables.transaction() as tx:
            tx.run("claim_lock", id=held.file_id)
            ran = run(tx, "file_parsed", values)
            if held.batch_size not in (None, batch_size):
                run(tx, "sinks_recut", _key(held))
            run(tx, "revision_parsed", values)
        _insist(ran, held)

    async def sink_done(self, held: HeldFile, sink: str) -> None:
        """All of it is in that sink, `mysql` or `kafka`: its flag and its time."""
        async with self._tables.transaction() as tx:
            tx.run("claim_lock", id=held.file_id)
            ran = run(tx, _SINK_DONE[sink], _key(held))
        _insist(ran, held)

    async def sink_finished(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        """The same with its last checkpoint, for a sink that has no rows in these tables."""
        async with self._tables.transaction() as tx:
            tx.run("claim_lock", id=file_id)
            moved = run(tx, "sink_advance", checkpoint_values(file_id, sink, epoch, checkpoint))
            done = run(tx, _SINK_DONE[sink], {"id": file_id, "epoch": epoch})
        if (moved.count, done.count) != (1, 1):
            raise ClaimLost(f"the claim on file {file_id} was lost", epoch)

    def record_sink_done(self, tx: UnitOfWork, held: HeldFile | FileRevision, sink: str) -> None:
        """The same in a unit that has the last rows and the last checkpoint: `Conflict` if the hold has ended."""
        tx.run("claim_lock", id=held.file_id, expect=1)
        run(tx, _SINK_DONE[sink], _key(held), expect=1)

    async def note(self, held: HeldFile, reason: str) -> None:
        """Why it will wait, as `error_message`: for what is snoozed, which is no failure."""
        async with self._tables.transaction() as tx:
            tx.run("claim_lock", id=held.file_id)
            ran = run(tx, "file_noted", {**_key(held), "reason": reason[:ERROR_CHARS_MAX]})
        _insist(ran, held)


_JUDGEMENT = (
    "claim_spooled",
    "revision_same",
    "revision_other",
    "revision_dropped",
    "file_judged",
    "sinks_judged",
    "claim_judged",
    "revision_fetched",
)


_FIRST_READ = ("claim_spooled", "revision_fetched")


def _key(held: HeldFile | FileRevision) -> dict[str, int]:
    return {"id": held.file_id, "epoch": held.epoch}


def _insist(ran: Ran, held: HeldFile) -> None:
    if ran.count != 1:
        raise _lost(held)


def _lost(held: HeldFile) -> ClaimLost:
    return ClaimLost(f"the claim on file {held.file_id} was lost", held.epoch)
