"""What operators do to jobs, each verb in one transaction."""

from __future__ import annotations

import json

from headrace.adapters.sqlite.chunks import ChunkPlace, carry_on, read_items
from headrace.adapters.sqlite.finish_line import CANCELLED_BY_USER, cancel_open, chunk_ended, end_external
from headrace.adapters.sqlite.submissions import match_dead
from headrace.adapters.sqlite.transaction import Row, Transaction
from headrace.core import bits
from headrace.core.errors import CallerError, NotFound
from headrace.core.graph import Kind
from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState


def _job(tx: Transaction, job: str) -> Row:
    row = tx.one("job_row", job=job)
    if row is None:
        raise NotFound(f"there is no job {job}", "headrace jobs list")
    return row


def cancel(tx: Transaction, job: str) -> bool:
    row = _job(tx, job)
    if row[5] != JobState.OPEN:
        return False
    if row[8] == CANCELLED_BY_USER:
        return True
    cancel_open(tx, job, row[6], CANCELLED_BY_USER)
    return True


def pause(tx: Transaction, job: str) -> bool:
    row = _job(tx, job)
    if row[5] != JobState.OPEN:
        return False
    tx.run("job_pause", job=job, paused=1)
    tx.run("chunks_pause", job=job, generation=row[6])
    return True


def resume(tx: Transaction, job: str) -> bool:
    row = _job(tx, job)
    if not row[7]:
        return False
    tx.run("job_pause", job=job, paused=0)
    tx.run("chunks_resume", job=job, generation=row[6], now=tx.wall())
    tx.rang = True
    return True


def cancel_item(tx: Transaction, job: str, stage: str, seq: int) -> bool:
    """End one waiting item now, or mark a held one."""
    row = _job(tx, job)
    generation = row[6]
    position = tx.graph(row[3]).position(stage)
    known = False
    for chunk, at, count, mark, low, high, is_open, _ in tx.all("chunks_of_stage", job=job, position=position):
        items = read_items(tx, chunk)
        if seq not in items.seqs:
            continue
        known = True
        index = list(items.seqs).index(seq)
        ended = (bits.from_bytes(low) | bits.from_bytes(high) | _settled(tx, chunk)) >> index & 1
        if at != generation or ended or not is_open:
            continue
        if index >= mark:
            _split(tx, (chunk, index, mark, count), (job, generation, position))
        else:
            tx.run("item_cancel_insert", job=job, generation=generation, position=position, seq=seq)
        return True
    if not known:
        raise NotFound(f"there is no item {seq} in stage {stage!r} of job {job}", f"headrace jobs items {job}")
    return False


def _settled(tx: Transaction, chunk: int) -> int:
    """Items that live claims of a chunk have settled, which their ends have not folded into it yet."""
    settled = 0
    for lo, _, low, high in tx.all("claims_of_chunk", id=chunk):
        settled |= (bits.from_bytes(low) | bits.from_bytes(high)) << lo
    return settled


def _split(tx: Transaction, where: tuple[int, int, int, int], stage: tuple[str, int, int]) -> None:
    """One waiting item ends; its waiting neighbours move on to a chunk of their own."""
    chunk, index, mark, count = where
    state = tx.one("chunk_place", id=chunk)
    assert state is not None, "a chunk without its state"
    queue, tenant, priority, gate, depth, attempt, crashes, suspect, due_at, low, high, ready, revokes = state
    others = [at for at in range(mark, count) if at != index]
    job, generation, position = stage
    if others:
        place = ChunkPlace(
            job,
            generation,
            position,
            queue,
            tenant,
            priority,
            gate=gate,
            depth=depth,
            attempt=attempt,
            crashes=crashes,
            suspect=bool(suspect),
            delay_s=max(0.0, due_at - tx.wall()) if ready != 1 else 0.0,
            revokes=tuple(json.loads(revokes)) if revokes else (),
        )
        carry_on(tx, place, read_items(tx, chunk), others)
    moved = bits.of(others)
    planes = {
        "low": bits.to_bytes(bits.from_bytes(low) | moved),
        "high": bits.to_bytes(bits.from_bytes(high) | moved | 1 << index),
    }
    if not tx.value("chunk_split", id=chunk, moved=len(others), **planes):
        chunk_ended(tx, chunk, job, generation, position)


def purge(tx: Transaction, which: DeadFilter) -> int:
    letters = match_dead(tx, which)
    for letter in letters:
        tx.run("dead_delete", job=letter[0], generation=letter[1], position=letter[2], seq=letter[3])
    for job in {letter[0] for letter in letters}:
        tx.run("job_purged", job=job)
    return len(letters)


def close_external(tx: Transaction, job: str, stage: str, event_id: str) -> bool:
    row = _job(tx, job)
    graph = tx.graph(row[3])
    position = graph.position(stage)
    if graph.stages[position].kind is not Kind.EXTERNAL:
        raise CallerError(f"stage {stage!r} is not external: its own items end it")
    first = tx.value("external_arrive", job=job, position=position, generation=row[6], event_id=event_id, now=tx.wall())
    if not first:
        return False
    chunk = tx.value("external_waiting", job=job, generation=row[6], position=position)
    if chunk is not None:
        end_external(tx, chunk, done=True)
    return True
