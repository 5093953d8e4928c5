"""Staged parcels: large sends and uploads written ahead, in no count until their owner flips them.

An owner is a claim (its fence) or a job that is being uploaded (its id). While staged, a chunk's `queue` is the name of
the stage it is for and its `due_at` the delay it will have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from headrace.adapters.sqlite.chunks import (
    ChunkItems,
    ChunkPlace,
    Gate,
    all_cancelled,
    insert_parcel,
    insert_staged,
    only_new,
    read_items,
    read_payload,
    readiness,
)
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.graph import Graph
from headrace.core.parcels import Parcel

ABANDONED_S = 86_400.0


def stage_parcels(tx: Transaction, owner: int | str, parcels: Sequence[Parcel]) -> bool:
    """Write parcels ahead; numbers seen before are not written again. False: the claim is lost."""
    if isinstance(owner, int) and tx.value("claim_alive", fence=owner, boot=tx.boot, now=tx.now()) is None:
        return False
    if isinstance(owner, str) and tx.one("job_by_id", job=owner) is not None:
        # A late repeat of an upload whose submit has been: nobody would flip it.
        return True
    known = {row[1] for row in tx.all("staged_of", owner=str(owner))} if parcels else set()
    for parcel in parcels:
        if parcel.number not in known:
            known.add(parcel.number)
            insert_staged(tx, str(owner), parcel)
    return True


def flip(
    tx: Transaction, owner: str, flips: Collection[int] | None, graph: Graph, target: Callable[[int], ChunkPlace]
) -> None:
    """Make staged parcels part of the account (None: all of this owner's)."""
    for chunk, number, stage, delay_s, depth in tx.all("staged_of", owner=owner):
        if flips is None or number in flips:
            position = graph.position(stage)
            place = target(position)
            place = replace(place, delay_s=place.delay_s + delay_s, depth=depth)
            _flip_one(tx, chunk, place, graph.stages[position].unique)


def staged_stages(tx: Transaction, owner: str) -> dict[int, str]:
    """Which stage each staged parcel of an owner is for, by its number."""
    return {number: stage for _, number, stage, _, _ in tx.all("staged_of", owner=owner)}


def _flip_one(tx: Transaction, chunk: int, place: ChunkPlace, unique: bool) -> None:
    items = read_items(tx, chunk)
    count = len(items.ends)
    if unique and items.keys is not None:
        parcel = _reread(tx, items, place)
        kept = only_new(tx, place.job, place.position, parcel)
        if kept is not parcel:
            drop_chunk(tx, chunk)
            if kept is None:
                return
            chunk, count = insert_parcel(tx, replace(place, delay_s=0.0), kept), kept.count
    tx.run(
        "staged_flip",
        id=chunk,
        job=place.job,
        generation=place.generation,
        position=place.position,
        queue=place.queue,
        tenant=place.tenant,
        priority=place.priority,
        due_at=tx.wall() + place.delay_s,
        gate=place.gate,
        ready=readiness(place),
    )
    tx.rang = True
    if place.gate == Gate.CANCELLED:
        tx.run("chunk_cancel_waiting", id=chunk, high=all_cancelled(count))
        tx.run("stage_fold", id=chunk)


def _reread(tx: Transaction, items: ChunkItems, place: ChunkPlace) -> Parcel:
    payload, ends = read_payload(tx, items, 0, len(items.ends))
    return Parcel(place.queue, payload, ends, tuple(items.keys or ()), place.depth, place.delay_s)


def drop_staged(tx: Transaction, owner: str) -> None:
    for row in tx.all("staged_of", owner=owner):
        drop_chunk(tx, row[0])


def drop_chunk(tx: Transaction, chunk: int) -> None:
    tx.run("chunk_state_drop", id=chunk)
    tx.run("chunk_drop", id=chunk)


def drop_abandoned(tx: Transaction) -> None:
    for row in tx.all("staged_abandoned", before=tx.wall() - ABANDONED_S):
        drop_chunk(tx, row[0])
