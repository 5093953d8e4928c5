"""The raw rows of one job's account, as read in one snapshot, so that a recount needs no trust in tallies."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.graph import Graph
from headrace.core.tally import JobState


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage of one generation, as its tally stands. `redriven` counts the dead letters that entered it again."""

    generation: int
    position: int
    name: str
    feeders_open: int
    total: int
    done: int
    dead: int
    cancelled: int
    closed: bool
    redriven: int = 0


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """`low` and `high` are the two bit planes (bit i is the item at offset i): 00 open, 01 done (low set),
    10 dead or cancelled (high set), 11 moved to another chunk. `fresh` chunks count towards the total, others
    carry on items that were moved."""

    id: int
    generation: int
    position: int
    fresh: bool
    staged: bool
    count: int
    next: int
    done: int
    dead: int
    cancelled: int
    moved: int
    low: int
    high: int
    seqs: tuple[int, ...]
    ended: bool


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A slice `[lo, hi)` of one chunk, with the ends that its holder has settled."""

    fence: int
    chunk: int
    lo: int
    hi: int
    done: int
    dead: int
    cancelled: int
    moved: int
    low: int
    high: int
    live: bool


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A dead letter: which item of which stage died in which generation, and which one took it up again."""

    generation: int
    position: int
    seq: int
    redriven_in: int | None = None


@dataclass(frozen=True, slots=True)
class JobAudit:
    """`state` is what the job says of itself. Generations up to `pruned` have no chunks
    any more (their retention has passed): only their tallies can be checked. `purged` says that dead letters may
    have been forgotten, so that there may be fewer of them than the counts say. Without `graph` the seals
    cannot be checked."""

    job: str
    generation: int
    state: JobState
    pruned: int
    stages: tuple[StageRow, ...]
    chunks: tuple[ChunkRow, ...]
    claims: tuple[ClaimRow, ...]
    dead: tuple[DeadRow, ...]
    finishes: tuple[int, ...]
    events: tuple[int, ...]
    graph: Graph | None = None
    purged: bool = True

    @property
    def open(self) -> bool:
        """Whether the newest generation has not ended."""
        return self.state is JobState.OPEN
