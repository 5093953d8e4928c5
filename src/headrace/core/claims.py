"""What passes between a worker and a store: wants, claims, settlements and their answers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core.deliveries import REASON_CHARS_MAX
from headrace.core.graph import Graph
from headrace.core.parcels import Parcel, bounded_s
from headrace.core.redaction import clipped
from headrace.core.tally import Tally
from headrace.core.texts import storable

HOLD_S = 30.0
ATTEMPTS_MAX = 5
CRASHES_MAX = 3
TIMEOUT_S = 900.0
ERROR_CHARS_MAX = 4_000
TRACEBACK_BYTES_MAX = 16 * 1024
DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Want:
    """A worker's appetite for one stage: at most `room` items, in slices of at most `slice_max`."""

    flow: str
    stage: str
    room: int
    slice_max: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A slice `[lo, hi)` of one chunk, held under one fence until the hold time passes.

    `payload` is the msgpack of its items one after another, `ends[i]` where item i ends. `alone`
    marks suspects: the holder runs them one at a time with nothing else started in its process. It
    settles an empty step before it starts the first, and each before it starts the next. `cursors`
    maps an index of this claim to what an earlier holder of that item committed. `tallies` is what a
    barrier's handler gets to see: by stage, the counts of this generation and of all generations
    together, in which a redriven item counts once. `revokes` are the fences of lost claims that held
    these items: a conditional sink is told before the handler runs.
    """

    fence: int
    job: str
    tenant: str
    flow: str
    generation: int
    stage: str
    lo: int
    hi: int
    seqs: Sequence[int]
    payload: bytes
    ends: Sequence[int]
    graph: Graph
    keys: tuple[str | None, ...] | None = None
    attempt: int = 0
    alone: bool = False
    depth: int = 0
    cursors: Mapping[int, bytes] = field(default_factory=dict)
    tallies: Mapping[str, tuple[Tally, Tally]] | None = None
    revokes: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        return self.hi - self.lo

    def piece(self, index: int) -> bytes:
        """The encoded payload of one item."""
        return bytes(self.payload[self.ends[index - 1] if index else 0 : self.ends[index]])


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a claim. `wait_s`: when something not yet due becomes due (None: nothing is)."""

    claims: tuple[Claim, ...] = ()
    wait_s: float | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """An item that ends dead. `index` counts from the start of the claim. Its texts are cut and cleaned as it is made,
    so that every store keeps the same; of a `traceback` over `TRACEBACK_BYTES_MAX` beginning and end are kept."""

    index: int
    reason: str
    rule: str = ""
    error: str = ""
    attempts: int = 0
    traceback: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason[:REASON_CHARS_MAX]))
        object.__setattr__(self, "rule", storable(self.rule[:REASON_CHARS_MAX]))
        object.__setattr__(self, "error", storable(self.error[:ERROR_CHARS_MAX]))
        object.__setattr__(self, "traceback", clipped(storable(self.traceback), TRACEBACK_BYTES_MAX))

    @property
    def fingerprint(self) -> str:
        """The same for errors that differ only in numbers, so that failures group."""
        shape = DIGIT.sub("#", f"{self.rule}|{self.error or self.reason}")
        return hashlib.sha256(shape.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Again:
    """An item that waits again for `delay_s`, with `attempt` attempts spent by then."""

    index: int
    delay_s: float
    attempt: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "delay_s", bounded_s(self.delay_s))


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that an item's handler recorded, to be applied in the transaction that settles it: with `?` and
    values in order, or `:name` and values by name."""

    index: int
    sql: str
    values: Mapping[str, object] | tuple[object, ...] = ()


class Refused(Exception):
    """A statement of an application that may not run in a transaction of the store."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """Outcomes of one claim, applied in one transaction.

    `step` counts the settlements of this claim from 1; a repeat of the last accepted step is the
    same settlement and gets the same answer. Bit i of `done` is the item at index i. `sends` become
    visible with it, and so do the parcels staged earlier under this fence whose numbers are in
    `flips`. `cursor` is (index, cursor) of a streaming item. `end` ends the claim: staged parcels
    that were never flipped are dropped, and items without an outcome go back to waiting at once,
    with no attempt spent. `back` gives items back while the claim goes on: from that index on
    nothing was started, and nothing of it belongs to the claim any more. `statements` are applied in
    the same transaction, after the fence was checked.
    """

    fence: int
    step: int
    done: int = 0
    dead: tuple[Loss, ...] = ()
    again: tuple[Again, ...] = ()
    sends: tuple[Parcel, ...] = ()
    flips: tuple[int, ...] = ()
    cursor: tuple[int, bytes] | None = None
    end: bool = True
    back: int | None = None
    statements: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Settled:
    """`accepted`, or the reason why nothing of it was applied: `lost` (or what it flips is), `out_of_step`,
    `sealed:<stage>`, `unknown:<stage>` (not one that the sender feeds), or `statements`: those of the items
    in `faults`, as (index, error), cannot be applied, and all others could."""

    fence: int
    accepted: bool
    reason: str = ""
    faults: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Renewed:
    """`kept` fences hold on; `ending` ones run out unrenewed (their job is cancelled); the rest are lost."""

    kept: frozenset[int]
    ending: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Swept:
    """`lost` claims were ended by this sweep; the next live claim expires in `wait_s` (None: none is live)."""

    lost: int = 0
    wait_s: float | None = None
