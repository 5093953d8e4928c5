"""What any worker does for everybody: end expired claims, overdue externals, and what retention has let go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.adapters.sqlite.chunks import read_items
from headrace.adapters.sqlite.finish_line import end_external
from headrace.adapters.sqlite.retention import retain_told
from headrace.adapters.sqlite.settlements import Held, lose
from headrace.adapters.sqlite.staged_parcels import drop_abandoned, drop_chunk
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.claims import Swept
from headrace.core.losses import DEADLINE, Charge

JOBS_KEPT_S = 30 * 86_400.0
WORKERS_KEPT_S = 3_600.0
JOB_TABLES = ("job", "stage", "dead", "finish", "event", "external", "cursor", "item_cancel", "unique_key")


def sweep(tx: Transaction, judge: Callable[[bool, Sequence[int], int], Charge]) -> Swept:
    now = tx.now()
    lost = 0
    for (fence,) in tx.all("claims_expired", now=now, boot=tx.boot):
        held = Held.read(tx, fence)
        if held is not None and held.live:
            lose(tx, held, judge)
            lost += 1
    for row in tx.all("externals_due", now=tx.wall()):
        _die_of_deadline(tx, *row)
    tx.run("claims_forget", now=tx.wall())
    tx.run("worker_gone", boot=tx.boot, before=now - WORKERS_KEPT_S)
    drop_abandoned(tx)
    retain(tx)
    until = tx.value("claims_next_until")
    return Swept(lost, None if until is None else max(0.0, until - now))


def _die_of_deadline(tx: Transaction, chunk: int, job: str, generation: int, position: int) -> None:
    row = tx.one("job_flags", job=job)
    assert row is not None, "a chunk without its job"
    tenant, flow, digest = row[:3]
    tx.run(
        "dead_insert",
        job=job,
        generation=generation,
        position=position,
        seq=read_items(tx, chunk).seqs[0],
        tenant=tenant,
        flow=flow,
        stage=tx.graph(digest).stages[position].name,
        key=None,
        reason=DEADLINE.reason,
        rule=DEADLINE.rule,
        error=DEADLINE.error,
        fingerprint=DEADLINE.fingerprint,
        attempts=DEADLINE.attempts,
        now=tx.wall(),
        depth=0,
        revokes=None,
        payload=b"\xc0",
        traceback=DEADLINE.traceback,
    )
    end_external(tx, chunk, done=False)


def retain(tx: Transaction) -> int:
    """A bounded piece of retention; the number of rows that went. Marks of units go with it: there may be no relay."""
    rows = retain_told(tx)
    tx.run("prune_start", now=tx.wall())
    pruning = tx.one("pruning")
    if pruning is not None:
        job, pruned = pruning
        chunks = tx.all("chunks_of_job", job=job, pruned=pruned)
        for (chunk,) in chunks:
            drop_chunk(tx, chunk)
        rows += len(chunks)
        if not chunks:
            rows += tx.run("prune_cursors", job=job, pruned=pruned)
            tx.run("job_pruned", job=job)
    for (old,) in tx.all("jobs_to_forget", before=tx.wall() - JOBS_KEPT_S):
        rows += sum(tx.run(f"forget_{table}", job=old) for table in JOB_TABLES)
    return rows
