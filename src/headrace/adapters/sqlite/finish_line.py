"""The finish line: folding an ended chunk into its stage, closing stages downstream, ending the job.

A stage closes under its own row: sealed (`feeders_open = 0`), nothing open in it, everything counted has
ended. Closing takes one feeder from every stage it feeds or that comes after it, in topological order, so the
cascade is a walk forward that touches each stage once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from heapq import heappop, heappush

from headrace.adapters.sqlite.chunks import ChunkPlace, Gate, insert_parcel
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core import bits
from headrace.core.graph import Graph, Kind
from headrace.core.parcels import DELAY_S_MAX, Parcel
from headrace.core.tally import Tally, state_at_end

CANCELLED_BY_USER = 1
STOPPED_EARLY = 2
NIL = b"\xc0"


def open_generation(tx: Transaction, job: str, generation: int, graph: Graph) -> None:
    """Empty tallies for every stage."""
    for position, spec in enumerate(graph.stages):
        tx.run(
            "stage_insert",
            job=job,
            generation=generation,
            position=position,
            name=spec.name,
            feeders=graph.feeders(position),
        )


def chunk_ended(tx: Transaction, chunk: int, job: str, generation: int, position: int) -> None:
    """Fold an ended chunk into its stage and cross whatever lines that opens."""
    row = tx.one("stage_fold", id=chunk)
    assert row is not None, "a chunk without its stage"
    dead, total, feeders_open = row
    if dead:
        _stop_early(tx, job, generation, position, (dead, total, feeders_open))
    close_stages(tx, job, generation, (position,))


def close_stages(tx: Transaction, job: str, generation: int, positions: Iterable[int]) -> None:
    """Close those of `positions` that can be, and everything downstream that follows from it."""
    queue = sorted(positions)
    flags = None
    while queue:
        position = heappop(queue)
        closed = tx.one("stage_close", job=job, generation=generation, position=position, now=tx.wall())
        if closed is None:
            continue
        flags = flags or Flags.read(tx, job)
        for target in flags.graph.arrows(position):
            left = tx.value("feeder_closed", job=job, generation=generation, position=target)
            if left == 0:
                _open_barrier(tx, flags, generation, target)
                heappush(queue, target)
        if tx.value("stages_open", job=job) == 0:
            _end_job(tx, flags, generation)


class Flags:
    """What a closing stage needs to know about its job."""

    __slots__ = ("cancelled", "flow", "graph", "job", "paused", "priority", "tenant")

    @classmethod
    def read(cls, tx: Transaction, job: str) -> Flags:
        row = tx.one("job_flags", job=job)
        assert row is not None, "a stage without its job"
        flags = cls()
        flags.job = job
        flags.tenant, flags.flow, digest, flags.priority, flags.paused, flags.cancelled, _ = row
        flags.graph = tx.graph(digest)
        return flags

    job: str
    tenant: str
    flow: str
    graph: Graph
    priority: int
    paused: int
    cancelled: int

    def place(self, generation: int, position: int) -> ChunkPlace:
        queue = f"{self.flow}/{self.graph.stages[position].name}"
        gate = Gate.PAUSED if self.paused else Gate.OPEN
        return ChunkPlace(self.job, generation, position, queue, self.tenant, self.priority, gate)


def _open_barrier(tx: Transaction, flags: Flags, generation: int, position: int) -> None:
    """A stage that comes after others gets its one item as they have all closed."""
    spec = flags.graph.stages[position]
    if spec.kind is Kind.WORK:
        return
    taken_up = {"job": flags.job, "position": position, "generation": generation}
    if generation > 1:
        # If nothing before it moved, the redrive itself let its letter in.
        if not _moved_upstream(tx, flags, generation, position):
            return
        if not spec.every_generation and tx.one("dead_taken_up", **taken_up) is None:
            return
    # Barriers run in a job that stopped, and nobody is waited for in it.
    spared = spec.always or (flags.cancelled == STOPPED_EARLY and spec.kind is Kind.BARRIER)
    if flags.cancelled and not spared:
        tx.run("dead_put_back", **taken_up)
        tx.run("stage_redriven", redriven=0, **taken_up)
        return
    open_item(tx, flags, generation, position)


def open_item(tx: Transaction, flags: Flags, generation: int, position: int) -> None:
    """The one item of a barrier, or of an external stage, which waits for its event or for its deadline.

    If a dead letter of the stage was taken up in this generation, this is that item again and not a second one.
    """
    spec = flags.graph.stages[position]
    place, seqs = flags.place(generation, position), None
    taken_up = {"job": flags.job, "position": position, "generation": generation}
    letter = tx.one("dead_taken_up", **taken_up) if generation > 1 else None
    if letter is not None:
        revokes = tuple(json.loads(letter[1])) if letter[1] else ()
        place, seqs = replace(place, suspect=bool(revokes), revokes=revokes), [int(letter[0])]
    if spec.kind is Kind.EXTERNAL:
        delay_s = DELAY_S_MAX if spec.deadline_s is None else spec.deadline_s
        place = replace(place, delay_s=delay_s, external=True)
    chunk = insert_parcel(tx, place, Parcel(spec.name, NIL, [len(NIL)]), seqs)
    if spec.kind is Kind.EXTERNAL and tx.value("external_arrived", job=flags.job, position=position):
        end_external(tx, chunk, done=True)


def end_external(tx: Transaction, chunk: int, done: bool) -> None:
    plane = bits.to_bytes(1)
    row = tx.one("external_end", id=chunk, done=int(done), low=plane if done else None, high=None if done else plane)
    assert row is not None, "an external stage without its item"
    chunk_ended(tx, chunk, *row)


def _moved_upstream(tx: Transaction, flags: Flags, generation: int, position: int) -> bool:
    totals = {row[0]: row[2] for row in tx.all("stage_tallies", job=flags.job, generation=generation)}
    return any(totals[candidate] > 0 for candidate in flags.graph.upstream(position))


def _stop_early(tx: Transaction, job: str, generation: int, position: int, seen: tuple[int, int, int]) -> None:
    """Too much died in a stage that wants to stop then: the rest of the job ends cancelled, the job failed."""
    flags = Flags.read(tx, job)
    spec = flags.graph.stages[position]
    if not spec.stop_early or flags.cancelled:
        return
    dead, total, feeders_open = seen
    if spec.tolerate.percent is not None:
        if feeders_open or spec.name in spec.feeds:
            return
        total += tx.value("stage_size", job=job, generation=generation, position=position)
    if spec.tolerate.exceeded(dead, total):
        cancel_open(tx, job, generation, STOPPED_EARLY)


def cancel_open(tx: Transaction, job: str, generation: int, cancelled: int) -> None:
    """End what waits, and put everything that is held behind a closed gate. A stop leaves barriers alone: they run in
    failed jobs too."""
    tx.run("job_cancel", job=job, cancelled=cancelled)
    stages = Flags.read(tx, job).graph.stages
    touched: set[int] = set()
    for chunk, position, count, mark, high, gate in tx.all("chunks_open", job=job, generation=generation):
        if gate == Gate.CANCELLED or (cancelled == STOPPED_EARLY and stages[position].kind is Kind.BARRIER):
            continue
        waiting = bits.ones(count) ^ bits.ones(mark)
        plane = bits.to_bytes(bits.from_bytes(high) | waiting)
        if not tx.value("chunk_cancel_waiting", id=chunk, high=plane):
            tx.run("stage_fold", id=chunk)
            touched.add(position)
    close_stages(tx, job, generation, touched)


def _end_job(tx: Transaction, flags: Flags, generation: int) -> None:
    """The finish row and its event: one row, once, in the transaction that closed the last stage."""
    own = {row[1]: _closed(*row[2:6]) for row in tx.all("stage_tallies", job=flags.job, generation=generation)}
    overall = [_closed(*row[1:]) for row in tx.all("stage_sums", job=flags.job)]
    specs = flags.graph.stages
    judged = [(spec.tolerate, tally) for spec, tally in zip(specs, overall, strict=True)]
    state = state_at_end(judged, flags.cancelled == CANCELLED_BY_USER, generation)
    event_id = f"{flags.job}.{generation}.completed"
    now = tx.wall()
    tx.run("finish_insert", job=flags.job, generation=generation, state=state, event_id=event_id, now=now)
    body = {
        "job": flags.job,
        "flow": flags.flow,
        "tenant": flags.tenant,
        "generation": generation,
        "state": state,
        "stages": {name: _counts(tally) for name, tally in own.items()},
        "overall": {spec.name: _counts(tally) for spec, tally in zip(specs, overall, strict=True)},
    }
    tx.run(
        "event_insert",
        event_id=event_id,
        topic="job.completed",
        job=flags.job,
        generation=generation,
        body=json.dumps(body, ensure_ascii=False),
        now=now,
    )
    tx.run("job_end", job=flags.job, state=state, now=now)


def _closed(total: int, done: int, dead: int, cancelled: int) -> Tally:
    return Tally(total, 0, 0, done, dead, cancelled, sealed=True, closed=True)


def _counts(tally: Tally) -> dict[str, int]:
    return {"total": tally.total, "done": tally.done, "dead": tally.dead, "cancelled": tally.cancelled}
