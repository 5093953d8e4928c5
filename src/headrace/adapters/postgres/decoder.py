"""Rows of the server turned into claims, and places of items into seqs, keys and pieces."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.adapters.postgres.encoder import ends_from_bytes
from headrace.core.claims import Claim
from headrace.core.graph import Graph
from headrace.core.tally import Tally

SEQ_BLOCK = 1024
Row = tuple[Any, ...]

FENCE, JOB, TENANT, QUEUE, GRAPH, WAIT_S = 0, 1, 2, 3, 11, 23


def claim_of(row: Row, graph: Graph) -> Claim:
    """One granted slice. The server sends the bytes from its first item to its last; carried ones are cut out here."""
    fence, job, tenant, queue, generation, position, lo, hi, attempt, alone, depth, _ = row[:12]
    payload_chunk, run_at, run, ends, keys, picks, known_seqs, cursors, cursor_seqs, tallies, revokes = row[12:23]
    marks = ends_from_bytes(ends)
    own_seqs = seqs_of(payload_chunk, picks if picks is not None else range(lo, hi), known_seqs)
    payload, own_ends = _cut(run, run_at, marks, picks if picks is not None else range(lo, hi))
    names = json.loads(keys) if keys else None
    return Claim(
        fence=fence,
        job=job,
        tenant=tenant,
        flow=queue.rpartition("/")[0],
        generation=generation,
        stage=graph.stages[position].name,
        lo=lo,
        hi=hi,
        seqs=own_seqs,
        payload=payload,
        ends=own_ends,
        graph=graph,
        keys=tuple(names[pick] for pick in (picks or range(lo, hi))) if names else None,
        attempt=attempt,
        alone=alone,
        depth=depth,
        cursors=_cursors(own_seqs, cursor_seqs, cursors) if cursors else {},
        tallies=_tallies(tallies),
        revokes=tuple(revokes or ()),
    )


def seqs_of(payload_chunk: int, picks: Sequence[int], known: Sequence[int] | None) -> Sequence[int]:
    """A fresh chunk numbers its items itself; a redriven one brings the numbers they had."""
    if known is not None:
        return [known[pick] for pick in picks]
    first = payload_chunk * SEQ_BLOCK
    if isinstance(picks, range):
        return range(first + picks.start, first + picks.stop)
    return [first + pick for pick in picks]


def _cut(run: bytes, run_at: int, marks: array[int], picks: Sequence[int]) -> tuple[bytes, Sequence[int]]:
    if isinstance(picks, range):
        own = marks[picks.start : picks.stop]
        return run, own if run_at == 0 else array("I", [mark - run_at for mark in own])
    pieces = [run[(marks[pick - 1] if pick else 0) - run_at : marks[pick] - run_at] for pick in picks]
    ends, total = array("I"), 0
    for piece in pieces:
        total += len(piece)
        ends.append(total)
    return b"".join(pieces), ends


def _cursors(own: Sequence[int], seqs: Sequence[int], cursors: Sequence[bytes]) -> dict[int, bytes]:
    known = dict(zip(seqs, cursors, strict=True))
    return {index: bytes(known[seq]) for index, seq in enumerate(own) if seq in known}


def _tallies(found: Mapping[str, Any] | None) -> dict[str, tuple[Tally, Tally]] | None:
    """What a barrier sees is closed: nothing waits, nothing is held."""
    if found is None:
        return None
    return {name: (_closed(*own), _closed(*every)) for name, (own, every) in found.items()}


def _closed(total: int, done: int, dead: int, cancelled: int) -> Tally:
    return Tally(int(total), 0, 0, int(done), int(dead), int(cancelled), sealed=True, closed=True)
