"""How far a file has come in each sink: rows of `pm_file_sink`, which only the claim that has their epoch moves.

A sink's name says which flag is its own: `mysql` is `mysql_processed`, `kafka` is `clickhouse_processed`, whatever
keeps the rows.
"""

from __future__ import annotations

from headrace.errors import ClaimLost
from headrace.tables import OpenTables, UnitOfWork
from headrace_pm.kafka.checkpoints import Checkpoint
from headrace_pm.tables.steps import run


class SinkCheckpoints:
    """`headrace_pm.kafka.checkpoints.CheckpointStore`. Digests pass as text: not every database has 64 bits without a
    sign."""

    def __init__(self, tables: OpenTables) -> None:
        self._tables = tables

    async def load(self, file_id: int, sink: str) -> Checkpoint:
        found = await self._tables.one("sink_read", file_id=file_id, sink=sink)
        return Checkpoint() if found is None else Checkpoint(found[1], found[2], int(found[3]))

    async def save(self, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        async with self._tables.transaction() as tx:
            ran = run(tx, "sink_advance", checkpoint_values(file_id, sink, epoch, checkpoint))
        if ran.count != 1:
            raise ClaimLost(f"the claim on file {file_id} was lost", epoch)

    def record(self, tx: UnitOfWork, file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> None:
        """In one unit with the rows it counts: `Conflict` if another claim has the file, and nothing is written."""
        run(tx, "sink_advance", checkpoint_values(file_id, sink, epoch, checkpoint), expect=1)


def checkpoint_values(file_id: int, sink: str, epoch: int, checkpoint: Checkpoint) -> dict[str, object]:
    """What `sink_advance` is given."""
    key = {"file_id": file_id, "sink": sink, "epoch": epoch}
    return {
        **key,
        "next_batch": checkpoint.next_batch,
        "rows": checkpoint.rows,
        "digest": str(checkpoint.digest),
    }
