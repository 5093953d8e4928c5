"""Settlements: outcomes of a claim applied to the account, and what a lost claim leaves behind.

Counting takes three steps so that nothing is hot: a settlement counts in its claim, the end of the claim folds into
its chunk, the end of the chunk folds into the stage.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from headrace.adapters.sqlite.chunks import (
    ChunkItems,
    ChunkPlace,
    Gate,
    all_cancelled,
    carry_on,
    insert_parcel,
    only_new,
    read_items,
    read_payload,
)
from headrace.adapters.sqlite.finish_line import chunk_ended
from headrace.adapters.sqlite.recorded_statements import apply_recorded
from headrace.adapters.sqlite.staged_parcels import drop_staged, flip, staged_stages
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core import bits
from headrace.core.claims import Again, Loss, Settled, Settlement
from headrace.core.graph import Graph
from headrace.core.losses import WORKER_LOST, Charge
from headrace.core.parcels import Parcel
from headrace.core.retry import groups

REMEMBER_HOLDS = 10


@dataclass(slots=True)
class Held:
    """A claim with its chunk, as one transaction sees and changes it."""

    fence: int
    chunk: int
    lo: int
    hi: int
    alone: int
    hold_s: float
    live: int
    step: int
    boot: str
    until: float
    done: int
    dead: int
    cancelled: int
    moved: int
    low: int
    high: int
    job: str
    generation: int
    position: int
    queue: str
    tenant: str
    priority: int
    attempt: int
    crashes: int
    fresh: int
    depth: int
    gate: int
    count: int
    revokes: tuple[int, ...]
    flow: str
    graph: Graph
    items: ChunkItems | None = None

    @classmethod
    def read(cls, tx: Transaction, fence: int) -> Held | None:
        row = tx.one("claim_held", fence=fence)
        if row is None:
            return None
        held = cls(*row)
        held.low = bits.from_bytes(row[14])
        held.high = bits.from_bytes(row[15])
        held.revokes = tuple(json.loads(row[28])) if row[28] else ()
        held.graph = tx.graph(row[30])
        return held

    @property
    def unsettled(self) -> int:
        return bits.ones(self.hi - self.lo) & ~(self.low | self.high)

    def seq_items(self, tx: Transaction) -> ChunkItems:
        if self.items is None:
            self.items = read_items(tx, self.chunk)
        return self.items

    def place(self, **conditions: object) -> ChunkPlace:
        """Where items of this claim go when they wait again."""
        values: dict[str, object] = {"attempt": self.attempt, "crashes": self.crashes, "depth": self.depth}
        values.update(conditions)
        gate = self.gate
        return ChunkPlace(
            self.job,
            self.generation,
            self.position,
            self.queue,
            self.tenant,
            self.priority,
            gate,
            **values,  # type: ignore[arg-type]
        )


def settle(tx: Transaction, settlement: Settlement) -> Settled:
    """Apply one settlement whole, or refuse it whole."""
    held = Held.read(tx, settlement.fence)
    refusal = _refusal(tx, held, settlement)
    if refusal is not None or held is None:
        return Settled(settlement.fence, refusal == "", refusal or "")
    wrong = _wrong_target(tx, held, settlement)
    if wrong:
        return Settled(settlement.fence, False, wrong)
    faults = apply_recorded(tx, settlement.statements)
    if faults:
        return Settled(settlement.fence, False, "statements", faults)
    held.step = settlement.step
    _end_done(held, settlement.done)
    for loss in settlement.dead:
        _end_dead(tx, held, loss, held.revokes)
    _move_again(tx, held, settlement.again)
    if settlement.cursor is not None:
        index, cursor = settlement.cursor
        _put_cursor(tx, held, index, cursor)
    for parcel in settlement.sends:
        _insert_sent(tx, held, parcel)
    if settlement.flips:
        flip(tx, str(held.fence), settlement.flips, held.graph, lambda position: _target(held, position))
    if settlement.end:
        _give_back(tx, held)
        end_claim(tx, held)
    else:
        if settlement.back is not None:
            _give_back(tx, held, settlement.back)
        tx.run("claim_step", **_counts(held))
    return Settled(settlement.fence, True)


def _refusal(tx: Transaction, held: Held | None, settlement: Settlement) -> str | None:
    """None: apply it. Empty: it was applied before. Else: the reason why not."""
    step = held.step if held is not None else tx.value("claim_answered", fence=settlement.fence)
    if step and settlement.step == step:
        return ""
    if held is None:
        return "lost"
    if not held.live or held.boot != tx.boot or held.until < tx.now():
        return "lost"
    return None if settlement.step == held.step + 1 else "out_of_step"


def _wrong_target(tx: Transaction, held: Held, settlement: Settlement) -> str:
    """Why a stage among the targets cannot be sent to, or that something to be flipped is gone; else empty."""
    feeds = held.graph.stages[held.position].feeds
    targets = {parcel.stage for parcel in settlement.sends}
    if settlement.flips:
        staged = staged_stages(tx, str(held.fence))
        if not staged.keys() >= set(settlement.flips):
            return "lost"
        targets |= {staged[number] for number in settlement.flips}
    for stage in sorted(targets):
        if stage not in feeds:
            return f"unknown:{stage}"
        position = held.graph.position(stage)
        if position != held.position and tx.value(
            "stage_sealed", job=held.job, generation=held.generation, position=position
        ):
            return f"sealed:{stage}"
    return ""


def _end_done(held: Held, done: int) -> None:
    """Bits that ended before are not counted again."""
    new = done & held.unsettled
    held.low |= new
    held.done += new.bit_count()


def _end_dead(tx: Transaction, held: Held, loss: Loss, revokes: Sequence[int]) -> None:
    """A dead letter. It remembers the lost claims that had the item: whoever redrives it must tell the sinks."""
    if not held.unsettled >> loss.index & 1:
        return
    held.high |= 1 << loss.index
    held.dead += 1
    items = held.seq_items(tx)
    at = held.lo + loss.index
    payload, _ = read_payload(tx, items, at, at + 1)
    tx.run(
        "dead_insert",
        job=held.job,
        generation=held.generation,
        position=held.position,
        seq=items.seqs[at],
        tenant=held.tenant,
        flow=held.flow,
        stage=held.graph.stages[held.position].name,
        key=items.key(at),
        reason=loss.reason,
        rule=loss.rule,
        error=loss.error,
        fingerprint=loss.fingerprint,
        attempts=loss.attempts,
        now=tx.wall(),
        depth=held.depth,
        revokes=json.dumps(revokes) if revokes else None,
        payload=payload,
        traceback=loss.traceback,
    )


def _move_again(tx: Transaction, held: Held, again: Sequence[Again]) -> None:
    """Items that wait again move to chunks of their own, by attempt and due time."""
    chosen = [entry for entry in again if held.unsettled >> entry.index & 1]
    if not chosen:
        return
    kept = set(_not_cancelled(tx, held, [entry.index for entry in chosen]))
    for group in groups(entry for entry in chosen if entry.index in kept):
        _move(tx, held, group.indexes, held.place(attempt=group.attempt, delay_s=group.delay_s))


def _not_cancelled(tx: Transaction, held: Held, indexes: Sequence[int]) -> list[int]:
    """End the items whose job or self was cancelled; the others are returned."""
    if held.gate == Gate.CANCELLED:
        _end_cancelled(held, indexes)
        return []
    seqs = held.seq_items(tx).seqs
    own = [seqs[held.lo + index] for index in indexes]
    if not own:
        return []
    rows = tx.all(
        "cancels_of",
        job=held.job,
        generation=held.generation,
        position=held.position,
        first=min(own),
        last=max(own),
    )
    marked = {row[0] for row in rows}
    if not marked:
        return list(indexes)
    _end_cancelled(held, [index for index in indexes if seqs[held.lo + index] in marked])
    return [index for index in indexes if seqs[held.lo + index] not in marked]


def _end_cancelled(held: Held, indexes: Sequence[int]) -> None:
    held.high |= bits.of(indexes)
    held.cancelled += len(indexes)


def _move(tx: Transaction, held: Held, indexes: Sequence[int], place: ChunkPlace) -> None:
    moved = bits.of(indexes)
    held.low |= moved
    held.high |= moved
    held.moved += len(indexes)
    carry_on(tx, place, held.seq_items(tx), [held.lo + index for index in indexes])


def _put_cursor(tx: Transaction, held: Held, index: int, cursor: bytes) -> None:
    seq = held.seq_items(tx).seqs[held.lo + index]
    tx.run("cursor_put", job=held.job, generation=held.generation, position=held.position, seq=seq, cursor=cursor)


def _target(held: Held, position: int) -> ChunkPlace:
    queue = f"{held.flow}/{held.graph.stages[position].name}"
    return ChunkPlace(held.job, held.generation, position, queue, held.tenant, held.priority, held.gate)


def _insert_sent(tx: Transaction, held: Held, parcel: Parcel) -> None:
    position = held.graph.position(parcel.stage)
    sent: Parcel | None = parcel
    if held.graph.stages[position].unique:
        sent = only_new(tx, held.job, position, parcel)
    if sent is None:
        return
    chunk = insert_parcel(tx, _target(held, position), sent)
    if held.gate == Gate.CANCELLED:
        tx.run("chunk_cancel_waiting", id=chunk, high=all_cancelled(sent.count))
        tx.run("stage_fold", id=chunk)


def _give_back(tx: Transaction, held: Held, first: int = 0) -> None:
    """Items without an outcome wait again at once: in place if nobody was granted what follows them."""
    left = [index for index in bits.indexes(held.unsettled) if index >= first]
    if not left:
        return
    kept = _not_cancelled(tx, held, left)
    if not kept:
        return
    state = tx.one("chunk_ends", id=held.chunk)
    assert state is not None, "a claim without its chunk"
    run = kept[-1] - kept[0] + 1 == len(kept) and held.lo + kept[-1] + 1 == held.hi
    if run and state[2] == held.hi:
        held.hi = held.lo + kept[0]
        tx.run("chunk_back", id=held.chunk, next=held.hi)
        tx.rang = True
        return
    _move(tx, held, kept, held.place(suspect=bool(held.alone), revokes=held.revokes))


def end_claim(tx: Transaction, held: Held) -> None:
    """The claim folds into its chunk; if that ends the chunk, the chunk folds into its stage."""
    state = tx.one("chunk_ends", id=held.chunk)
    assert state is not None, "a claim without its chunk"
    low, high, mark, _, _ = state
    tx.run("claim_end", forget_at=tx.wall() + REMEMBER_HOLDS * held.hold_s, **_counts(held))
    folded = tx.one(
        "chunk_fold",
        id=held.chunk,
        done=held.done,
        dead=held.dead,
        cancelled=held.cancelled,
        moved=held.moved,
        low=bits.to_bytes(bits.from_bytes(low) | held.low << held.lo),
        high=bits.to_bytes(bits.from_bytes(high) | held.high << held.lo),
        next=mark,
    )
    drop_staged(tx, str(held.fence))
    if folded is not None and not folded[0]:
        chunk_ended(tx, held.chunk, held.job, held.generation, held.position)


def _counts(held: Held) -> dict[str, object]:
    return {
        "fence": held.fence,
        "hi": held.hi,
        "step": held.step,
        "done": held.done,
        "dead": held.dead,
        "cancelled": held.cancelled,
        "moved": held.moved,
        "low": bits.to_bytes(held.low),
        "high": bits.to_bytes(held.high),
    }


def lose(tx: Transaction, held: Held, judge: Callable[[bool, Sequence[int], int], Charge]) -> None:
    """Settle an expired claim: its unsettled items come back as suspects, and one of them may be charged."""
    kept = _not_cancelled(tx, held, list(bits.indexes(held.unsettled)))
    verdict = judge(bool(held.alone and held.step), kept, held.crashes)
    revokes = (*held.revokes, held.fence)
    for index in verdict.dead:
        _end_dead(tx, held, replace(WORKER_LOST, index=index, attempts=held.attempt), revokes)
    if verdict.charged:
        _move(tx, held, verdict.charged, held.place(suspect=True, crashes=held.crashes + 1, revokes=revokes))
    if verdict.uncharged:
        _move(tx, held, verdict.uncharged, held.place(suspect=True, revokes=revokes))
    end_claim(tx, held)
