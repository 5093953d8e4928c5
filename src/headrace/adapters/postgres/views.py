"""Reads for people and for `verify`, each in one snapshot. They lock and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from headrace.adapters.postgres.calls import Graphs, Row, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.decoder import seqs_of
from headrace.adapters.postgres.encoder import bits_from_text, ends_from_bytes
from headrace.core import bits
from headrace.core.audit import ChunkRow, ClaimRow, DeadRow, JobAudit, StageRow
from headrace.core.errors import NotFound
from headrace.core.jobs import DeadFilter, DeadView, FinishView, ItemView, JobFilter, JobView, WorkerView
from headrace.core.tally import JobState, Tally, over_generations

Passages = dict[str, dict[int, tuple[Tally, int]]]


def missing(job: str) -> NotFound:
    return NotFound(f"there is no job {job}", "headrace jobs list")


def job_views(connection: Connection, graphs: Graphs, which: JobFilter, job: str | None = None) -> list[JobView]:
    found = rows(connection, "job_views", {**asdict(which), "job": job})
    graphs.learn(connection, {row[10] for row in found})
    passages = _passages(connection, [row[0] for row in found])
    return [_job_view(row, graphs, passages[row[0]]) for row in found]


def _job_view(row: Row, graphs: Graphs, passages: Passages) -> JobView:
    job, tenant, flow, state, generation, priority, paused, submitted_at, ended_at, key, digest = row
    return JobView(
        id=job,
        tenant=tenant,
        flow=flow,
        state=JobState(state),
        generation=generation,
        priority=priority,
        paused=paused,
        submitted_at=submitted_at,
        ended_at=ended_at,
        key=key,
        graph=graphs[digest],
        stages={name: over_generations(list(found.values())) for name, found in passages.items()},
    )


def _passages(connection: Connection, jobs: Sequence[str]) -> dict[str, Passages]:
    """By job, the tallies of all its stages in all its generations, oldest first."""
    found: dict[str, Passages] = {job: {} for job in jobs}
    for job, generation, _, name, *counts, redriven in rows(connection, "tallies", {"jobs": list(jobs)}):
        found[job].setdefault(name, {})[generation] = Tally(*counts), redriven
    return found


def finish_views(connection: Connection, job: str) -> list[FinishView]:
    passages = _passages(connection, [job])[job]
    return [
        FinishView(job, generation, JobState(state), event_id, crossed_at, _own(passages, generation))
        for generation, state, event_id, crossed_at in rows(connection, "finishes", {"job": job})
    ]


def _own(passages: Passages, generation: int) -> dict[str, Tally]:
    return {name: found[generation][0] for name, found in passages.items()}


def dead_views(connection: Connection, which: DeadFilter) -> list[DeadView]:
    return [DeadView(*row) for row in rows(connection, "dead_list", asdict(which))]


def worker_views(connection: Connection) -> list[WorkerView]:
    return [WorkerView(*row) for row in rows(connection, "workers")]


def audit(connection: Connection, graphs: Graphs, job: str) -> JobAudit:
    values = {"job": job}
    head = rows(connection, "audit_job", values)
    if not head:
        raise missing(job)
    generation, state, pruned, purged, digest = head[0]
    chunks = rows(connection, "chunks", {"job": job, "position": None})
    return JobAudit(
        job=job,
        generation=generation,
        state=JobState(state),
        pruned=pruned,
        stages=tuple(StageRow(*row) for row in rows(connection, "audit_stages", values)),
        chunks=tuple(_chunk_row(row) for row in chunks),
        claims=tuple(_claim_row(row) for row in rows(connection, "claims", values)),
        dead=tuple(DeadRow(*row) for row in rows(connection, "audit_dead", values)),
        finishes=tuple(row[0] for row in rows(connection, "finishes", values)),
        events=tuple(row[0] for row in rows(connection, "audit_events", values)),
        graph=graphs.one(connection, digest),
        purged=purged,
    )


def _chunk_row(row: Row) -> ChunkRow:
    chunk, generation, position, fresh, count, mark, done, dead, cancelled, moved, low, high, is_open = row[:13]
    return ChunkRow(
        id=chunk,
        generation=generation,
        position=position,
        fresh=fresh,
        staged=False,
        count=count,
        next=mark,
        done=done,
        dead=dead,
        cancelled=cancelled,
        moved=moved,
        low=bits_from_text(low),
        high=bits_from_text(high),
        seqs=tuple(_seqs(row)),
        ended=not is_open,
    )


def _seqs(row: Row) -> Sequence[int]:
    """The seqs of a chunk's items, in order of their offsets."""
    count, payload_chunk, picks, known = row[4], row[14], row[15], row[16]
    return seqs_of(payload_chunk, picks if picks is not None else range(count), known)


def _claim_row(row: Row) -> ClaimRow:
    fence, chunk, lo, hi, done, dead, cancelled, moved, low, high, live = row
    planes = bits_from_text(low), bits_from_text(high)
    return ClaimRow(fence, chunk, lo, hi, done, dead, cancelled, moved, *planes, live)


def item_views(connection: Connection, job: str, stage: tuple[str, int], page: tuple[int, int]) -> list[ItemView]:
    """Items of one stage after a seq, each once in its newest state."""
    name, position = stage
    after_seq, limit = page
    values = {"job": job, "position": position}
    dead = {(generation, seq) for generation, seq in rows(connection, "items_dead", values)}
    chunks = rows(connection, "chunks", values)
    claims = [row for row in rows(connection, "claims", values) if row[10]]
    states: dict[int, tuple[str, int, float | None]] = {}
    bodies: dict[int, int] = {}
    for row in chunks:
        for seq, state in _states(row, [claim for claim in claims if claim[1] == row[0]]):
            bodies[seq] = row[14]
            if state != bits.MOVED:
                due_at = row[17] if state == bits.WAITING else None
                states[seq] = bits.state_of(state, (row[1], seq) in dead), row[13], due_at
    wanted = sorted(seq for seq in states if seq > after_seq)[:limit]
    pieces = _pieces(connection, {bodies[seq] for seq in wanted})
    views = []
    for seq in wanted:
        (state, retries, due_at), (key, payload) = states[seq], pieces[seq]
        views.append(ItemView(name, seq, key, state, retries, payload, due_at))
    return views


def _states(row: Row, claims: Iterable[Row]) -> Iterable[tuple[int, str]]:
    mark, low, high = row[5], bits_from_text(row[10]), bits_from_text(row[11])
    for claim in claims:
        low |= bits_from_text(claim[8]) << claim[2]
        high |= bits_from_text(claim[9]) << claim[2]
    yield from zip(_seqs(row), bits.states(row[4], mark, low, high), strict=True)


def _pieces(connection: Connection, chunks: set[int]) -> dict[int, tuple[str | None, bytes]]:
    """Key and payload by seq, of all items of some payload chunks."""
    found: dict[int, tuple[str | None, bytes]] = {}
    for chunk, known, ends, keys, payload in rows(connection, "item_bodies", {"chunks": sorted(chunks)}):
        marks = ends_from_bytes(ends)
        names = json.loads(keys) if keys else None
        start = 0
        for pick, seq in enumerate(seqs_of(chunk, range(len(marks)), known)):
            found[seq] = (names[pick] if names else None), bytes(payload[start : marks[pick]])
            start = marks[pick]
    return found
