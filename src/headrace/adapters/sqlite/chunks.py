"""Chunks: how items enter the account, and how they are read back.

A fresh chunk holds payloads. A chunk that carries on items of another only says which, so a retry or a
takeover never copies a payload.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from headrace.adapters.sqlite.transaction import Transaction
from headrace.core import bits
from headrace.core.parcels import Encoded, Parcel, check_keys, pack

SEQ_BLOCK = 1024


class Gate(IntEnum):
    OPEN = 0
    PAUSED = 1
    CANCELLED = 2


class Readiness(IntEnum):
    NO = 0
    YES = 1
    DELAYED = 2
    EXTERNAL = 3


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a chunk belongs, and under which conditions it waits there."""

    job: str
    generation: int
    position: int
    queue: str
    tenant: str
    priority: int
    gate: int = Gate.OPEN
    depth: int = 0
    attempt: int = 0
    crashes: int = 0
    suspect: bool = False
    delay_s: float = 0.0
    external: bool = False
    revokes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkItems:
    """Where the items of a chunk are: `picks[i]` is the index of item i in the chunk that has the payload.

    Picks and seqs are ascending.
    """

    payload_chunk: int
    picks: Sequence[int]
    ends: Sequence[int]
    keys: Sequence[str | None] | None
    seqs: Sequence[int]

    def span(self, pick: int) -> tuple[int, int]:
        return (self.ends[pick - 1] if pick else 0), self.ends[pick]

    def key(self, index: int) -> str | None:
        return self.keys[self.picks[index]] if self.keys else None


def numbers(values: Iterable[int], code: str = "I") -> bytes:
    """Little-endian, so that a store file can move between machines."""
    packed = values if isinstance(values, array) and values.typecode == code else array(code, values)
    if sys.byteorder == "big":
        packed = array(code, packed)
        packed.byteswap()
    return packed.tobytes()


def unnumbers(data: bytes, code: str = "I") -> array[int]:
    values: array[int] = array(code)
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def read_items(tx: Transaction, chunk: int) -> ChunkItems:
    row = tx.one("chunk_items", id=chunk)
    assert row is not None, "a chunk state without its chunk"
    _, picks, payload_chunk, ends, keys, seqs = row
    end_marks = unnumbers(ends)
    chosen: Sequence[int] = unnumbers(picks) if picks is not None else range(len(end_marks))
    if seqs is not None:
        known = unnumbers(seqs, "q")
        own: Sequence[int] = [known[pick] for pick in chosen]
    else:
        first = payload_chunk * SEQ_BLOCK
        own = range(first, first + len(end_marks)) if picks is None else [first + pick for pick in chosen]
    return ChunkItems(payload_chunk, chosen, end_marks, json.loads(keys) if keys else None, own)


def read_payload(tx: Transaction, items: ChunkItems, lo: int, hi: int) -> tuple[bytes, Sequence[int]]:
    """The payloads of items [lo, hi), one after another, and where each ends."""
    start, stop = items.span(items.picks[lo])[0], items.span(items.picks[hi - 1])[1]
    run = tx.value("chunk_payload", id=items.payload_chunk, start=start, length=stop - start) or b""
    if isinstance(items.picks, range):
        return run, [end - start for end in items.ends[lo:hi]] if start else items.ends[lo:hi]
    spans = [items.span(items.picks[index]) for index in range(lo, hi)]
    pieces = [run[begin - start : end - start] for begin, end in spans]
    ends, total = array("I"), 0
    for piece in pieces:
        total += len(piece)
        ends.append(total)
    return b"".join(pieces), ends


def insert_parcel(tx: Transaction, place: ChunkPlace, parcel: Parcel, seqs: Sequence[int] | None = None) -> int:
    """A fresh chunk: visible, counted, and waiting unless its gate is closed."""
    chunk = _insert_payload(tx, parcel, seqs)
    _insert_state(tx, replace(place, depth=parcel.depth, delay_s=place.delay_s + parcel.delay_s), chunk, parcel.count)
    return chunk


def insert_staged(tx: Transaction, owner: str, parcel: Parcel) -> int:
    """A chunk that is in no count until its owner's settlement or submit flips it."""
    chunk = _insert_payload(tx, parcel, None)
    tx.run(
        "chunk_state_insert",
        **_state(ChunkPlace("", 0, -1, parcel.stage, "", 0, depth=parcel.depth), chunk, parcel.count),
        **{"ready": Readiness.NO, "open": 0, "staged": owner, "number": parcel.number, "staged_at": tx.wall()},
        due_at=parcel.delay_s,
        fresh=1,
    )
    return chunk


def carry_on(tx: Transaction, place: ChunkPlace, items: ChunkItems, indexes: Sequence[int]) -> int:
    """A chunk for items moved from another one: same payload, same seqs, other conditions."""
    picks = numbers(items.picks[index] for index in indexes)
    chunk = tx.value(
        "chunk_insert", payload=None, ends=None, keys=None, seqs=None, origin=items.payload_chunk, picks=picks
    )
    _insert_state(tx, place, chunk, len(indexes), fresh=False)
    return int(chunk)


def _insert_payload(tx: Transaction, parcel: Parcel, seqs: Sequence[int] | None) -> int:
    check_keys(parcel.keys or ())
    chunk = tx.value(
        "chunk_insert",
        payload=parcel.payload,
        ends=numbers(parcel.ends),
        keys=json.dumps(parcel.keys) if parcel.keys else None,
        origin=None,
        picks=None,
        seqs=None if seqs is None else numbers(seqs, "q"),
    )
    return int(chunk)


def _state(place: ChunkPlace, chunk: int, count: int) -> dict[str, object]:
    return {
        "id": chunk,
        "job": place.job,
        "generation": place.generation,
        "position": place.position,
        "queue": place.queue,
        "tenant": place.tenant,
        "priority": place.priority,
        "attempt": place.attempt,
        "crashes": place.crashes,
        "suspect": int(place.suspect),
        "depth": place.depth,
        "count": count,
        "gate": place.gate,
        "revokes": json.dumps(place.revokes) if place.revokes else None,
    }


def _insert_state(tx: Transaction, place: ChunkPlace, chunk: int, count: int, fresh: bool = True) -> None:
    due_at = tx.wall() + place.delay_s
    tx.run(
        "chunk_state_insert",
        **_state(place, chunk, count),
        **{"ready": readiness(place), "open": 1, "staged": None, "number": None, "staged_at": None},
        due_at=due_at,
        fresh=int(fresh),
    )
    tx.rang = True


def readiness(place: ChunkPlace) -> Readiness:
    if place.external:
        return Readiness.EXTERNAL
    if place.gate != Gate.OPEN:
        return Readiness.NO
    return Readiness.DELAYED if place.delay_s > 0 else Readiness.YES


def only_new(tx: Transaction, job: str, position: int, parcel: Parcel) -> Parcel | None:
    """The items of a parcel whose keys this stage has not seen in this job; keyless items always pass."""
    keys = parcel.keys
    if keys is None:
        return parcel
    fresh = {key for key in sorted({k for k in keys if k is not None}) if _is_new(tx, job, position, key)}
    kept: list[Encoded] = []
    start = 0
    for end, key in zip(parcel.ends, keys, strict=True):
        if key is None or key in fresh:
            if key is not None:
                fresh.discard(key)
            kept.append(Encoded(parcel.payload[start:end], key))
        start = end
    if len(kept) == parcel.count:
        return parcel
    if not kept:
        return None
    return replace(next(pack(parcel.stage, kept, parcel.depth, parcel.delay_s)), number=parcel.number)


def _is_new(tx: Transaction, job: str, position: int, key: str) -> bool:
    return tx.value("unique_insert", job=job, position=position, key=key) is not None


def all_cancelled(count: int) -> bytes:
    return bits.to_bytes(bits.ones(count))
