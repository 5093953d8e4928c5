"""Jobs as they are submitted and as people see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.graph import Graph
from headrace.core.parcels import Parcel
from headrace.core.tally import JobState, Tally

KEEP_S = 86_400.0
PRIORITY_MIN, PRIORITY_MAX = -100, 100


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to open. The same `job` again is the same submission.

    With `key`, one (tenant, flow, key) is one job: the same `digest` of the body gets the first
    job, another digest is refused. `uploaded` says how many parcels staged earlier under this job's id
    belong to it as well: all of them must still be there.
    """

    job: str
    flow: str
    graph: Graph
    parcels: tuple[Parcel, ...] = ()
    tenant: str = "default"
    key: str | None = None
    digest: str = ""
    priority: int = 0
    delay_s: float = 0.0
    keep_s: float = KEEP_S
    uploaded: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job that stands for the submission, and whether this call opened it."""

    job: str
    created: bool


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as people see it. `stages` holds the tallies over all generations, in graph order: an item that was
    redriven counts once, where its newest generation has it."""

    id: str
    tenant: str
    flow: str
    state: JobState
    generation: int
    priority: int
    paused: bool
    submitted_at: float
    ended_at: float | None
    key: str | None
    graph: Graph
    stages: Mapping[str, Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; empty means all. `before` is the id of the last job of the page before (newest first), `part` the
    beginning or the end of an id."""

    tenant: str | None = None
    flow: str | None = None
    state: JobState | None = None
    before: str | None = None
    limit: int = 50
    part: str | None = None


@dataclass(frozen=True, slots=True)
class ItemView:
    """One item as people see it; `state` is waiting, held, done, dead or cancelled. `retries` are failed attempts that
    were not the last: a dead letter's `attempts` has that one too. A waiting item that has `due_at` is claimed from
    then on. The payload is a value that JSON can say; between a store and the engine it is encoded."""

    stage: str
    seq: int
    key: str | None
    state: str
    retries: int
    payload: Any
    due_at: float | None = None


@dataclass(frozen=True, slots=True)
class DeadView:
    """One dead letter. `redriven_in` is the generation that took it up again. The payload is a value that JSON
    can say; between a store and the engine it is encoded."""

    job: str
    generation: int
    stage: str
    seq: int
    key: str | None
    reason: str
    rule: str
    error: str
    fingerprint: str
    attempts: int
    died_at: float
    redriven_in: int | None
    payload: Any
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters; empty means all that were not redriven."""

    tenant: str | None = None
    job: str | None = None
    flow: str | None = None
    stage: str | None = None
    reason: str | None = None
    rule: str | None = None
    fingerprint: str | None = None
    limit: int = 1_000
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class FinishView:
    """One finish line that was crossed: the tallies of its generation alone, the state of the whole job after it."""

    job: str
    generation: int
    state: JobState
    event_id: str
    crossed_at: float
    stages: Mapping[str, Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker process that renewed lately."""

    id: str
    host: str
    pid: int
    claims: int
    seen_s: float
