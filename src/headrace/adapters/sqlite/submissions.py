"""Submits and redrives: how a generation of a job opens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from itertools import groupby

from headrace.adapters.sqlite.chunks import ChunkPlace, Gate, insert_parcel, only_new
from headrace.adapters.sqlite.finish_line import Flags, close_stages, open_generation, open_item
from headrace.adapters.sqlite.staged_parcels import drop_staged, flip, staged_stages
from headrace.adapters.sqlite.transaction import Row, Transaction
from headrace.core.errors import Conflict, NotFound, UnknownStage
from headrace.core.graph import Graph, Kind
from headrace.core.jobs import DeadFilter, Submission, Submitted
from headrace.core.parcels import Encoded, Parcel, check_keys, pack
from headrace.core.tally import JobState


def submit(tx: Transaction, submission: Submission) -> Submitted:
    """Open a job, or find the one that this submission opened before."""
    check_keys((submission.key, submission.tenant))
    before = _before(tx, submission)
    if before is not None:
        drop_staged(tx, submission.job)
        return before
    graph = submission.graph
    uploaded = staged_stages(tx, submission.job) if submission.uploaded else {}
    if len(uploaded) != submission.uploaded:
        raise Conflict(
            f"{len(uploaded)} of {submission.uploaded} uploaded parcels of job {submission.job} are there",
            "an upload is forgotten after a day: upload again under a new job",
        )
    for stage in (*uploaded.values(), *(parcel.stage for parcel in submission.parcels)):
        _check_root(graph, stage)
    tx.run("graph_insert", digest=graph.digest, body=graph.dump())
    tx.run(
        "job_insert",
        job=submission.job,
        tenant=submission.tenant,
        flow=submission.flow,
        graph=graph.digest,
        priority=submission.priority,
        stages=len(graph.stages),
        now=tx.wall(),
        keep_s=submission.keep_s,
        key=submission.key,
        digest=submission.digest,
    )
    open_generation(tx, submission.job, 1, graph)
    if submission.uploaded:
        flip(tx, submission.job, None, graph, lambda position: _place(submission, position))
    for parcel in submission.parcels:
        _insert(tx, submission, parcel)
    _seal_roots(tx, submission.job, 1, graph)
    return Submitted(submission.job, True)


def _before(tx: Transaction, submission: Submission) -> Submitted | None:
    row = tx.one("job_by_id", job=submission.job)
    if row is None and submission.key is not None:
        row = tx.one("job_by_key", tenant=submission.tenant, flow=submission.flow, key=submission.key)
    if row is None:
        return None
    job, digest = row
    if digest != submission.digest:
        raise Conflict(
            f"the key {submission.key!r} was used before for another body (job {job})",
            f"headrace jobs show {job}",
        )
    return Submitted(job, False)


def _check_root(graph: Graph, stage: str) -> None:
    graph.position(stage)
    if stage not in graph.roots:
        raise UnknownStage(
            f"stage {stage!r} is fed by other stages and takes no submitted items",
            f"submit to one of: {', '.join(graph.roots)}",
        )


def _place(submission: Submission, position: int) -> ChunkPlace:
    stage = submission.graph.stages[position].name
    return ChunkPlace(
        submission.job,
        1,
        position,
        f"{submission.flow}/{stage}",
        submission.tenant,
        submission.priority,
        delay_s=submission.delay_s,
    )


def _insert(tx: Transaction, submission: Submission, parcel: Parcel) -> None:
    position = submission.graph.position(parcel.stage)
    kept: Parcel | None = parcel
    if submission.graph.stages[position].unique:
        kept = only_new(tx, submission.job, position, parcel)
    if kept is not None:
        insert_parcel(tx, _place(submission, position), kept)


def _seal_roots(tx: Transaction, job: str, generation: int, graph: Graph) -> None:
    """The submit was the only feeder of stages that no stage feeds: what is empty there closes now."""
    sealed = [position for position in range(len(graph.stages)) if graph.feeders(position) == 0]
    if generation == 1:
        flags = Flags.read(tx, job)
        for position in sealed:
            if graph.stages[position].kind is Kind.EXTERNAL:
                open_item(tx, flags, generation, position)
    close_stages(tx, job, generation, sealed)


def redrive(tx: Transaction, which: DeadFilter) -> int:
    """Open the next generation of every job with matching dead letters."""
    if which.job is not None and tx.one("job_row", job=which.job) is None:
        raise NotFound(f"there is no job {which.job}", "headrace jobs list")
    taken = 0
    for job, rows in groupby(match_dead(tx, which), key=lambda row: str(row[0])):
        letters = list(rows)
        head = tx.one("job_row", job=job)
        if head is None:
            continue
        if head[5] == JobState.OPEN:
            if which.job is not None:
                raise Conflict(f"job {job} has an open generation", f"wait for it: headrace jobs watch {job}")
            continue
        taken += _open_redriven(tx, head, letters)
    return taken


def match_dead(tx: Transaction, which: DeadFilter) -> list[Row]:
    return tx.all("dead_match", **asdict(which))


def _open_redriven(tx: Transaction, head: Row, letters: Sequence[Row]) -> int:
    job, tenant, flow, digest, priority, _, generation = head[:7]
    graph = tx.graph(digest)
    opened = generation + 1
    tx.run("job_reopen", job=job, generation=opened, stages=len(graph.stages))
    open_generation(tx, job, opened, graph)
    for letter in letters:
        item = {"job": job, "generation": letter[1], "position": letter[2], "seq": letter[3]}
        tx.run("dead_redriven", redriven_in=opened, **item)
        tx.run("cursor_redriven", redriven_in=opened, **item)
    for position, redriven in Counter(int(letter[2]) for letter in letters).items():
        tx.run("stage_redriven", job=job, generation=opened, position=position, redriven=redriven)
    by_work = [letter for letter in letters if graph.stages[letter[2]].kind is Kind.WORK]
    for (position, depth, lost), rows in groupby(sorted(by_work, key=_by_place), key=_by_place):
        stage = graph.stages[position].name
        revokes = tuple(json.loads(lost)) if lost else ()
        place = ChunkPlace(job, opened, position, f"{flow}/{stage}", tenant, priority, Gate.OPEN, depth)
        place = replace(place, suspect=bool(revokes), revokes=revokes)
        _insert_letters(tx, place, (stage, depth), list(rows))
    moving = {int(letter[2]) for letter in letters}
    for position in sorted(moving):
        # If something before it moves, the stage opens when that has closed, and its letter goes on then.
        if graph.stages[position].kind is not Kind.WORK and moving.isdisjoint(graph.upstream(position)):
            open_item(tx, Flags.read(tx, job), opened, position)
    _seal_roots(tx, job, opened, graph)
    tx.rang = True
    return len(letters)


def _by_place(letter: Row) -> tuple[int, int, str]:
    """Items that share their conditions; suspects, which carry the fences they lost, stay among themselves."""
    return letter[2], letter[6], letter[7] or ""


def _insert_letters(tx: Transaction, place: ChunkPlace, stage: tuple[str, int], letters: Iterable[Row]) -> None:
    """The same items again, with their seqs and keys."""
    ordered = sorted(letters, key=lambda letter: int(letter[3]))
    encoded = (Encoded(letter[5], letter[4]) for letter in ordered)
    at = 0
    for parcel in pack(stage[0], encoded, depth=stage[1]):
        seqs = [int(letter[3]) for letter in ordered[at : at + parcel.count]]
        insert_parcel(tx, place, parcel, seqs)
        at += parcel.count
