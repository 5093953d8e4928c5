"""Reads for people and for `verify`. A tally as read is stage + open chunks + live claims, in one snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from headrace.adapters.sqlite.chunks import SEQ_BLOCK, ChunkItems, read_items, read_payload
from headrace.adapters.sqlite.transaction import Row, Transaction
from headrace.core import bits
from headrace.core.audit import ChunkRow, ClaimRow, DeadRow, JobAudit, StageRow
from headrace.core.errors import NotFound
from headrace.core.jobs import DeadFilter, DeadView, FinishView, ItemView, JobFilter, JobView, WorkerView
from headrace.core.tally import JobState, Tally, over_generations


def job_view(tx: Transaction, job: str) -> JobView:
    row = tx.one("job_view", job=job)
    if row is None:
        raise NotFound(f"there is no job {job}", "headrace jobs list")
    return _view(tx, row)


def job_list(tx: Transaction, which: JobFilter) -> list[JobView]:
    rows = tx.all("job_list", **asdict(which))
    return [_view(tx, row) for row in rows]


def _view(tx: Transaction, row: Row) -> JobView:
    job, tenant, flow, state, generation, priority, paused, submitted_at, ended_at, key, digest = row
    return JobView(
        id=job,
        tenant=tenant,
        flow=flow,
        state=JobState(state),
        generation=generation,
        priority=priority,
        paused=bool(paused),
        submitted_at=submitted_at,
        ended_at=ended_at,
        key=key,
        graph=tx.graph(digest),
        stages=overall(tx, job, generation),
    )


def overall(tx: Transaction, job: str, generation: int) -> dict[str, Tally]:
    """Tallies over all generations up to the newest, which alone may be open."""
    own = tallies(tx, job, generation)
    passages: dict[str, list[tuple[Tally, int]]] = {name: [] for name in own}
    for name, at, total, *ends, redriven in tx.all("stage_history", job=job, generation=generation):
        passages[name].append((own[name] if at == generation else Tally(total, 0, 0, *ends), redriven))
    return {name: over_generations(found) for name, found in passages.items()}


def tallies(tx: Transaction, job: str, generation: int) -> dict[str, Tally]:
    """Tallies of one generation."""
    chunks = {row[0]: row[1:] for row in tx.all("tally_open", job=job, generation=generation)}
    claims = {row[0]: row[1:] for row in tx.all("tally_claims", job=job, generation=generation)}
    result: dict[str, Tally] = {}
    for position, name, total, done, dead, cancelled, feeders, closed_at in tx.all(
        "stage_tallies", job=job, generation=generation
    ):
        fresh, waiting, *ended = chunks.get(position, (0, 0, 0, 0, 0))
        held, *settled = claims.get(position, (0, 0, 0, 0))
        result[name] = Tally(
            total + fresh,
            waiting,
            held,
            done + ended[0] + settled[0],
            dead + ended[1] + settled[1],
            cancelled + ended[2] + settled[2],
            sealed=feeders == 0,
            closed=closed_at is not None,
        )
    return result


def item_list(tx: Transaction, job: str, stage: str, page: tuple[int, int]) -> list[ItemView]:
    """Items after a seq, each once in its newest state."""
    after_seq, limit = page
    row = tx.one("job_view", job=job)
    if row is None:
        raise NotFound(f"there is no job {job}", "headrace jobs list")
    position = tx.graph(row[10]).position(stage)
    first = max(0, after_seq // SEQ_BLOCK)
    fresh = tx.all("items_fresh", job=job, position=position, first=first, chunks=limit + 1, now=tx.wall())
    redriven = tx.all("items_redriven", job=job, position=position, now=tx.wall())
    views: list[ItemView] = []
    for origin in fresh:
        carried = tx.all("items_carried", id=origin[0], now=tx.wall())
        views.extend(_views(tx, stage, (job, position), (origin, [*carried, *_newest(tx, redriven)])))
        if sum(view.seq > after_seq for view in views) >= limit:
            break
    return [view for view in views if view.seq > after_seq][:limit]


def _newest(tx: Transaction, redriven: Iterable[Row]) -> list[Row]:
    """Redriven chunks with what carries on from them, oldest first."""
    rows: list[Row] = []
    for row in redriven:
        rows.append(row)
        rows.extend(tx.all("items_carried", id=row[0], now=tx.wall()))
    return sorted(rows, key=lambda entry: int(entry[0]))


def _views(tx: Transaction, stage: str, place: tuple[str, int], chunks: tuple[Row, Sequence[Row]]) -> list[ItemView]:
    origin, later = chunks
    items = read_items(tx, origin[0])
    seqs = items.seqs
    job, position = place
    rows = tx.all("items_dead", job=job, position=position, first=seqs[0], last=seqs[-1])
    dead = {(generation, seq) for generation, seq in rows}
    payload, ends = read_payload(tx, items, 0, len(seqs))
    states: dict[int, tuple[str, int, float | None]] = dict.fromkeys(seqs, ("", 0, None))
    for row in (origin, *later):
        own = items if row is origin else read_items(tx, row[0])
        for seq, state in _states(tx, row, own):
            if seq in states and state != bits.MOVED:
                due_at = row[7] if state == bits.WAITING else None
                states[seq] = (bits.state_of(state, (row[1], seq) in dead), row[4], due_at)
    starts = [0, *ends[:-1]]
    return [
        ItemView(stage, seq, items.key(index), state, retries, payload[starts[index] : ends[index]], due_at)
        for index, (seq, (state, retries, due_at)) in enumerate(states.items())
    ]


def _states(tx: Transaction, row: Row, items: ChunkItems) -> Iterable[tuple[int, str]]:
    chunk, _, count, mark, _, low, high, _ = row
    low, high = bits.from_bytes(low), bits.from_bytes(high)
    for lo, _, claim_low, claim_high in tx.all("claims_of_chunk", id=chunk):
        low |= bits.from_bytes(claim_low) << lo
        high |= bits.from_bytes(claim_high) << lo
    yield from zip(items.seqs, bits.states(count, mark, low, high), strict=True)


def dead_list(tx: Transaction, which: DeadFilter) -> list[DeadView]:
    rows = tx.all("dead_list", **asdict(which))
    return [DeadView(*row) for row in rows]


def finish_list(tx: Transaction, job: str) -> list[FinishView]:
    return [
        FinishView(job, generation, JobState(state), event_id, crossed_at, tallies(tx, job, generation))
        for _, generation, state, event_id, crossed_at in tx.all("finish_list", job=job)
    ]


def worker_list(tx: Transaction) -> list[WorkerView]:
    return [WorkerView(*row) for row in tx.all("worker_list", now=tx.now(), boot=tx.boot)]


def audit(tx: Transaction, job: str) -> JobAudit:
    head = tx.one("audit_job", job=job)
    if head is None:
        raise NotFound(f"there is no job {job}", "headrace jobs list")
    generation, state, pruned, purged, digest = head
    return JobAudit(
        job=job,
        generation=generation,
        state=JobState(state),
        pruned=pruned,
        stages=tuple(StageRow(*(*row[:-2], bool(row[-2]), row[-1])) for row in tx.all("audit_stages", job=job)),
        chunks=tuple(_chunk_row(tx, row) for row in tx.all("audit_chunks", job=job)),
        claims=tuple(_claim_row(row) for row in tx.all("audit_claims", job=job)),
        dead=tuple(DeadRow(*row) for row in tx.all("audit_dead", job=job)),
        finishes=tuple(row[1] for row in tx.all("finish_list", job=job)),
        events=tuple(row[0] for row in tx.all("audit_events", job=job)),
        graph=tx.graph(digest),
        purged=bool(purged),
    )


def _chunk_row(tx: Transaction, row: Row) -> ChunkRow:
    chunk, generation, position, fresh, staged, count, mark, done, dead, cancelled, moved, low, high, is_open = row
    return ChunkRow(
        id=chunk,
        generation=generation,
        position=position,
        fresh=bool(fresh),
        staged=bool(staged),
        count=count,
        next=mark,
        done=done,
        dead=dead,
        cancelled=cancelled,
        moved=moved,
        low=bits.from_bytes(low),
        high=bits.from_bytes(high),
        seqs=tuple(read_items(tx, chunk).seqs),
        ended=not is_open and not staged,
    )


def _claim_row(row: Row) -> ClaimRow:
    planes = (bits.from_bytes(row[8]), bits.from_bytes(row[9]))
    return ClaimRow(*(*row[:8], *planes, bool(row[10])))
