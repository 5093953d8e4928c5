"""A sound account has no findings, and whatever is changed in it is found under its number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.audit import ChunkRow, ClaimRow, DeadRow, JobAudit, StageRow
from headrace.core.graph import Graph, Kind, StageSpec
from headrace.core.recount import explain_open, overall, recount, tallies
from headrace.core.tally import JobState, Tally, Tolerance

GRAPH = Graph.build(
    [StageSpec("a", feeds=("b",)), StageSpec("b"), StageSpec("end", Kind.BARRIER, after=("b",))],
)

# Stage a: chunk 1 has ended: item 0 done, 1 dead, 2 moved to chunk 2, which has ended as well.
MOVED = ChunkRow(1, 1, 0, True, False, 3, 3, 1, 1, 0, 1, 0b101, 0b110, (1024, 1025, 1026), True)
CARRIED = ChunkRow(2, 1, 0, False, False, 1, 1, 1, 0, 0, 0, 0b1, 0b0, (1026,), True)
# Stage b: chunk 3 has two done items, two held (one of them settled in its claim), one waiting; chunk 4 is staged.
OPEN = ChunkRow(3, 1, 1, True, False, 5, 4, 2, 0, 0, 0, 0b00011, 0, (3072, 3073, 3074, 3075, 3076), False)
STAGED = ChunkRow(4, 1, 1, True, True, 2, 0, 0, 0, 0, 0, 0, 0, (4096, 4097), False)
HELD = ClaimRow(77, 3, 2, 4, 1, 0, 0, 0, 0b01, 0b00, True)
ENDED = ClaimRow(70, 3, 0, 2, 2, 0, 0, 0, 0b11, 0b00, False)

SOUND = JobAudit(
    "job",
    1,
    JobState.OPEN,
    False,
    (
        StageRow(1, 0, "a", 0, 3, 2, 1, 0, True),
        StageRow(1, 1, "b", 0, 0, 0, 0, 0, False),
        StageRow(1, 2, "end", 1, 0, 0, 0, 0, False),
    ),
    (MOVED, CARRIED, OPEN, STAGED),
    (HELD, ENDED),
    (DeadRow(1, 0, 1025),),
    (),
    (),
    GRAPH,
    False,
)

OVER = replace(
    SOUND,
    state=JobState.FAILED,
    stages=(
        SOUND.stages[0],
        StageRow(1, 1, "b", 0, 5, 5, 0, 0, True),
        StageRow(1, 2, "end", 0, 0, 0, 0, 0, True),
    ),
    chunks=(MOVED, CARRIED, replace(OPEN, next=5, done=5, low=0b11111, ended=True)),
    claims=(),
    finishes=(1,),
    events=(1,),
)

LENIENT = Graph.build([replace(spec, tolerate=Tolerance(count=1)) for spec in GRAPH.stages])

# Generation 1 is pruned and left three dead in stage a; generation 2 redrove one of them, which is done.
UNTOUCHED = tuple(DeadRow(1, 0, seq) for seq in (1024, 1025, 1026))
REDRIVEN = JobAudit(
    "job",
    2,
    JobState.FAILED,
    1,
    (
        StageRow(1, 0, "a", 0, 4, 1, 3, 0, True),
        StageRow(1, 1, "b", 0, 0, 0, 0, 0, True),
        StageRow(1, 2, "end", 0, 0, 0, 0, 0, True),
        StageRow(2, 0, "a", 0, 1, 1, 0, 0, True, redriven=1),
        StageRow(2, 1, "b", 0, 0, 0, 0, 0, True),
        StageRow(2, 2, "end", 0, 0, 0, 0, 0, True),
    ),
    (ChunkRow(9, 2, 0, True, False, 1, 1, 1, 0, 0, 0, 0b1, 0, (1024,), True),),
    (),
    (DeadRow(1, 0, 1024, redriven_in=2), *UNTOUCHED[1:]),
    (1, 2),
    (1, 2),
    LENIENT,
    False,
)


def chunk(row: ChunkRow, **changes: Any) -> JobAudit:
    changed = tuple(replace(entry, **changes) if entry is row else entry for entry in SOUND.chunks)
    return replace(SOUND, chunks=changed)


def claim(**changes: Any) -> JobAudit:
    return replace(SOUND, claims=(replace(HELD, **changes), ENDED))


def stage(position: int, audit: JobAudit = SOUND, **changes: Any) -> JobAudit:
    rows = tuple(replace(row, **changes) if row.position == position else row for row in audit.stages)
    return replace(audit, stages=rows)


BROKEN: dict[str, tuple[str, Callable[[], JobAudit]]] = {
    "an end that is not in the bit planes": ("L1", lambda: chunk(OPEN, done=3)),
    "an end that is only in the bit planes": ("L1", lambda: chunk(OPEN, low=0b10011)),
    "an end beyond the count": ("L1", lambda: chunk(OPEN, low=0b100011, done=3)),
    "a mark beyond the count": ("L1", lambda: chunk(OPEN, next=6)),
    "an ended item that was never granted": ("L1", lambda: chunk(OPEN, high=0b10000, dead=1)),
    "an item nobody has": ("D1", lambda: chunk(OPEN, next=5)),
    "a chunk that ended too early": ("L4", lambda: chunk(OPEN, ended=True)),
    "a chunk that did not end": ("L4", lambda: chunk(CARRIED, ended=False)),
    "a staged chunk that was granted": ("L3", lambda: chunk(STAGED, next=1)),
    "an item that was moved and arrived nowhere": (
        "L1",
        lambda: replace(SOUND, chunks=(MOVED, OPEN, STAGED), stages=stage(0, done=1).stages),
    ),
    "an item that stands in two places": ("L1", lambda: chunk(CARRIED, seqs=(1025,))),
    "an item that entered twice": ("L1", lambda: chunk(CARRIED, fresh=True)),
    "a claim beyond the mark": ("L1", lambda: claim(hi=5)),
    "a claim over an item that has ended": ("L2", lambda: claim(lo=1, low=0b010)),
    "two claims over one item": (
        "N2",
        lambda: replace(SOUND, claims=(HELD, replace(HELD, fence=78, low=0, done=0))),
    ),
    "a live claim on a chunk that is gone": ("L1", lambda: claim(chunk=99)),
    "a claim that counts what it did not settle": ("L1", lambda: claim(done=2)),
    "a tally that counts too much": ("L4", lambda: stage(0, done=3)),
    "a tally that forgot a chunk": ("L4", lambda: stage(0, total=0)),
    "a stage that closed with a waiting item": ("L4", lambda: stage(1, closed=True)),
    "a stage that closed before its feeder": ("L3", lambda: stage(2, closed=True)),
    "a feeder that is not counted": ("L3", lambda: stage(2, feeders_open=0)),
    "a feeder that closed and still counts": ("L3", lambda: stage(1, feeders_open=1)),
    "a dead letter of nobody": ("D2", lambda: replace(SOUND, dead=(DeadRow(1, 0, 5),))),
    "a death without a letter": ("D1", lambda: replace(SOUND, dead=())),
    "more letters than deaths": ("D1", lambda: replace(SOUND, dead=(*SOUND.dead, DeadRow(1, 0, 1024)))),
    "chunks of a stage without a tally": ("L4", lambda: replace(SOUND, stages=SOUND.stages[:1])),
    "a finish line while stages are open": ("L4", lambda: replace(SOUND, finishes=(1,), events=(1,))),
    "a job that says it ended": ("L4", lambda: replace(SOUND, state=JobState.FAILED)),
    "a job that ended without a finish line": ("L4", lambda: replace(OVER, finishes=(), events=())),
    "a finish line crossed twice": ("L4", lambda: replace(OVER, finishes=(1, 1))),
    "a finish line without its event": ("E1", lambda: replace(OVER, events=())),
    "an event without a finish line": ("E1", lambda: replace(OVER, events=(1, 1))),
    "an ended job that says it is open": ("L4", lambda: replace(OVER, state=JobState.OPEN)),
    "a closed stage with an open item": ("L4", lambda: stage(1, OVER, total=6)),
    "a job that says it went well though an item died": ("H2", lambda: replace(OVER, state=JobState.FINISHED)),
    "a job that says it failed though its dead are borne": ("H2", lambda: replace(OVER, graph=LENIENT)),
    "a job that says it went well though a redrive left something dead": (
        "H2",
        lambda: replace(REDRIVEN, state=JobState.FINISHED, graph=GRAPH),
    ),
    "a job cancelled in a redrive though too much is dead": (
        "H2",
        lambda: replace(REDRIVEN, state=JobState.CANCELLED),
    ),
    "a redriven letter that no stage took up": ("D2", lambda: stage(0, REDRIVEN, redriven=2)),
    "a stage that took up a letter that says nothing of it": ("D2", lambda: replace(REDRIVEN, dead=UNTOUCHED)),
}


@pytest.mark.parametrize("audit", [SOUND, OVER, REDRIVEN])
def test_a_sound_account_has_no_findings(audit: JobAudit) -> None:
    assert recount(audit) == []


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_broken_is_found(what: str) -> None:
    invariant, build = BROKEN[what]
    assert invariant in {finding.invariant for finding in recount(build())}


def test_tallies_come_from_the_chunks_alone() -> None:
    counted = tallies(replace(SOUND, stages=stage(1, total=99, done=99).stages))
    assert counted[(1, 0)] == Tally(3, 0, 0, 2, 1, 0, sealed=True, closed=True)
    assert counted[(1, 1)] == Tally(5, 1, 1, 3, 0, 0, sealed=True, closed=False)


def test_over_all_generations_an_item_counts_once() -> None:
    assert overall(REDRIVEN)[0] == Tally(4, 0, 0, 2, 2, 0, sealed=True, closed=True)


def test_a_purge_may_have_taken_letters_but_never_added_any() -> None:
    assert recount(replace(SOUND, dead=(), purged=True)) == []
    assert recount(replace(SOUND, dead=(*SOUND.dead, DeadRow(1, 0, 1024)), purged=True))


def test_pruned_chunks_leave_the_tallies_to_check() -> None:
    pruned = replace(OVER, chunks=(), pruned=True, dead=())
    assert recount(pruned) == []
    assert recount(stage(1, pruned, total=6))


def test_a_new_generation_is_recounted_though_the_first_is_pruned() -> None:
    redriven = replace(OPEN, id=9, generation=2, count=1, next=0, done=0, low=0, seqs=(3073,))
    second = tuple(
        replace(row, generation=2, total=0, done=0, dead=0, closed=row.position == 0) for row in SOUND.stages
    )
    audit = replace(
        OVER,
        generation=2,
        state=JobState.OPEN,
        pruned=True,
        stages=(*OVER.stages, *second),
        chunks=(redriven,),
        dead=(),
    )
    assert recount(audit) == []
    assert recount(replace(audit, chunks=(replace(redriven, next=1),)))


def test_a_generation_is_an_account_of_its_own() -> None:
    twin = replace(SOUND, chunks=(*SOUND.chunks, replace(OPEN, id=9, generation=2)))
    assert [finding.where for finding in recount(twin)] == [
        "chunk 9 of generation 2 position 1",
        "generation 2 position 1",
    ]


def test_what_is_open_is_told_in_words() -> None:
    assert explain_open(SOUND) == [
        "b: 3 of 5 ended; 1 waiting; 1 held by workers",
        "end: 0 of 0 ended; not sealed: it waits for b to close",
    ]
    assert explain_open(OVER) == []


def test_a_stage_that_should_have_closed_is_told_as_such() -> None:
    stuck = replace(OVER, state=JobState.OPEN, stages=stage(1, OVER, closed=False).stages, finishes=(), events=())
    assert "b: 5 of 5 ended; nothing is open and it did not close" in explain_open(stuck)
