"""Submits and redrives: how a generation of a job opens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from headrace.adapters.postgres.calls import Graphs, Row, one, rows
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.encoder import Cargo, stage_rows
from headrace.core.errors import Conflict, NotFound, UnknownStage
from headrace.core.graph import Graph, Kind
from headrace.core.jobs import DeadFilter, Submission, Submitted
from headrace.core.parcels import Encoded, check_keys, pack
from headrace.core.tally import JobState

Place = tuple[int, int, list[int], int]


def submit(connection: Connection, submission: Submission) -> tuple[Submitted, bool]:
    """Open a job, or find the one that this submission opened before; and whether workers should be woken."""
    body, cargo = body_of(submission)
    *found, rang = one(connection, "submit", (body, cargo.payloads, cargo.ends))
    return judged(submission, found), rang


def judged(submission: Submission, found: Sequence[Any]) -> Submitted:
    """The job that was opened or found; refused if what was found is another one under the same key."""
    job, created, digest = found
    if digest != submission.digest:
        used = f"the key {submission.key!r}" if submission.key is not None and job != submission.job else f"job {job}"
        raise Conflict(f"{used} was submitted before with another body (job {job})", f"headrace jobs show {job}")
    return Submitted(job, created)


def body_of(submission: Submission) -> tuple[str, Cargo]:
    """A submission as the account takes it: a description, and the payloads it names."""
    graph, cargo = submission.graph, Cargo()
    check_keys((submission.key, submission.tenant))
    parcels = []
    for parcel in submission.parcels:
        position = _root(graph, parcel.stage)
        parcels.append(cargo.parcel(parcel, position=position, unique=graph.stages[position].unique))
    body = {
        "job": submission.job,
        "tenant": submission.tenant,
        "flow": submission.flow,
        "graph": graph.digest,
        "graph_body": graph.dump(),
        "key": submission.key,
        "digest": submission.digest,
        "priority": submission.priority,
        "keep_s": submission.keep_s,
        "delay_s": submission.delay_s,
        "uploaded": int(submission.uploaded),
        "stages": stage_rows(graph),
        "parcels": parcels,
    }
    return json.dumps(body), cargo


def _root(graph: Graph, stage: str) -> int:
    position = graph.position(stage)
    if stage not in graph.roots:
        raise UnknownStage(
            f"stage {stage!r} is fed by other stages and takes no submitted items",
            f"submit to one of: {', '.join(graph.roots)}",
        )
    return position


def redrive(connection: Connection, graphs: Graphs, which: DeadFilter) -> tuple[int, bool]:
    """Open the next generation of every job with matching dead letters, each in a transaction of its own."""
    if which.job is not None and not rows(connection, "job_graph", (which.job,)):
        raise NotFound(f"there is no job {which.job}", "headrace jobs list")
    taken, rang = 0, False
    for job in sorted({letter[0] for letter in rows(connection, "dead_match", asdict(which))}):
        only = DeadFilter(**{**asdict(which), "job": job, "limit": which.limit - taken})
        with connection.transaction():
            state, digest, _ = one(connection, "lock_job", (job,))
            if state == JobState.OPEN:
                if which.job is not None:
                    raise Conflict(f"job {job} has an open generation", f"wait for it: headrace jobs watch {job}")
                continue
            # Read again under the lock: another redrive may have taken them up.
            letters = rows(connection, "dead_match", asdict(only))
            if letters:
                graph = graphs.one(connection, digest)
                rang = _reopen(connection, job, graph, letters) or rang
                taken += len(letters)
    return taken, rang


def _reopen(connection: Connection, job: str, graph: Graph, letters: Sequence[Row]) -> bool:
    cargo = Cargo()
    parcels = list(_parcels(graph, letters, cargo))
    values = (job, json.dumps(stage_rows(graph)), json.dumps(parcels), cargo.payloads, cargo.ends)
    return bool(one(connection, "redrive", values)[0])


def _parcels(graph: Graph, letters: Sequence[Row], cargo: Cargo) -> Iterator[dict[str, object]]:
    """The same items again, with their seqs and keys. The one item of a barrier needs no payload."""
    is_work = [spec.kind is Kind.WORK for spec in graph.stages]
    for position, found in groupby(letters, key=lambda letter: int(letter[2])):
        if not is_work[position]:
            yield {"position": position, "seqs": [letter[3] for letter in found]}
    ordered = sorted((letter for letter in letters if is_work[letter[2]]), key=_by_place)
    for (position, depth, revokes), found in groupby(ordered, key=lambda letter: _by_place(letter)[:3]):
        group = list(found)
        spec = graph.stages[position]
        at = 0
        for parcel in pack(spec.name, (Encoded(bytes(letter[5]), letter[4]) for letter in group), depth=depth):
            seqs = [letter[3] for letter in group[at : at + parcel.count]]
            yield cargo.parcel(parcel, position=position, seqs=seqs, revokes=revokes)
            at += parcel.count


def _by_place(letter: Row) -> Place:
    """Items that share their conditions; suspects, which carry the fences they lost, stay among themselves."""
    return letter[2], letter[6], letter[7] or [], letter[3]
