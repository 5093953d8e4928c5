"""Claims: whose turn it is, how large a slice is, and what its holder gets to see.

The rotation costs one index probe each for the next tenant and that tenant's next job, however many jobs wait, and
there is no row that all workers write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.adapters.sqlite.chunks import read_items, read_payload
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.claims import Claim, Grant, Renewed, Want
from headrace.core.graph import Graph, Kind
from headrace.core.rotation import ALONE_SLICE_MAX, SHARE_CHUNKS, Turn, share, shares
from headrace.core.tally import Tally


@dataclass(frozen=True, slots=True)
class Holder:
    """Who claims: an id for the account, host and pid for people."""

    worker: str
    host: str
    pid: int
    hold_s: float


def seen(tx: Transaction, holder: Holder) -> None:
    tx.run(
        "worker_seen",
        id=holder.worker,
        host=holder.host,
        pid=holder.pid,
        boot=tx.boot,
        now=tx.now(),
        hold_s=holder.hold_s,
    )


def grant(tx: Transaction, turns: dict[str, Turn], holder: Holder, wants: Sequence[Want]) -> Grant:
    """Slices for the wants, in their order."""
    seen(tx, holder)
    tx.run("promote_due", now=tx.wall())
    live = max(1, tx.value("workers_live", boot=tx.boot, now=tx.now()))
    claims: list[Claim] = []
    for want in wants:
        turn = turns.setdefault(f"{want.flow}/{want.stage}", Turn())
        room, left = want.room, dict[str, int]()
        while room > 0:
            claim = _next_slice(tx, turn, holder, (want, min(room, want.slice_max), live, left))
            if claim is None:
                break
            claims.append(claim)
            room -= claim.count
            left[claim.job] -= claim.count
    due_at = tx.value("next_due")
    return Grant(tuple(claims), None if due_at is None else max(0.0, due_at - tx.wall()))


def _next_slice(
    tx: Transaction, turn: Turn, holder: Holder, limits: tuple[Want, int, int, dict[str, int]]
) -> Claim | None:
    want, size_max, live, left = limits
    queue = f"{want.flow}/{want.stage}"
    priority = tx.value("priority_lowest" if turn.lowest else "priority_highest", queue=queue)
    if priority is None:
        return None
    place = {"queue": queue, "priority": priority}
    tenant = tx.value("tenant_next", tenant=turn.tenant, **place)
    if tenant is None:
        tenant = tx.value("tenant_next", tenant="", **place)
    row = tx.one("chunk_next", tenant=tenant, job=turn.jobs.get(tenant, ""), **place)
    row = row or tx.one("chunk_next", tenant=tenant, job="", **place)
    assert row is not None, "a tenant that is ready has a chunk that is ready"
    chunk, job = row
    if job not in left:
        left[job] = _share(tx, (live, want.room), {"tenant": tenant, "job": job, **place})
    if left[job] <= 0:
        return None
    turn.serve(tenant, job)
    return _take(tx, holder, chunk, min(size_max, left[job]))


def _share(tx: Transaction, appetite: tuple[int, int], place: dict[str, object]) -> int:
    live, room = appetite
    if shares(live) == 1:
        return room
    return share(int(tx.value("chunk_waiting", chunks=shares(live) * SHARE_CHUNKS, **place)), live)


def _take(tx: Transaction, holder: Holder, chunk: int, size_max: int) -> Claim:
    head = tx.one("chunk_head", id=chunk)
    assert head is not None, "a ready chunk has a job"
    job, generation, position, tenant, attempt, suspect, depth, count, lo, revokes, flow, digest = head
    hi = min(count, lo + (min(size_max, ALONE_SLICE_MAX) if suspect else size_max))
    fence = tx.value("fence_mint", now_us=int(tx.wall() * 1_000_000))
    tx.run("chunk_grant", id=chunk, lo=lo, hi=hi)
    tx.run(
        "claim_insert",
        fence=fence,
        chunk=chunk,
        worker=holder.worker,
        lo=lo,
        hi=hi,
        alone=suspect,
        hold_s=holder.hold_s,
        boot=tx.boot,
        until=tx.now() + holder.hold_s,
    )
    graph = tx.graph(digest)
    items = read_items(tx, chunk)
    payload, ends = read_payload(tx, items, lo, hi)
    seqs = items.seqs[lo:hi]
    rows = tx.all("cursors_of", job=job, generation=generation, position=position, first=seqs[0], last=seqs[-1])
    cursors: dict[int, bytes] = dict(rows)
    return Claim(
        fence=fence,
        job=job,
        tenant=tenant,
        flow=flow,
        generation=generation,
        stage=graph.stages[position].name,
        lo=lo,
        hi=hi,
        seqs=seqs,
        payload=payload,
        ends=ends,
        graph=graph,
        keys=tuple(items.key(index) for index in range(lo, hi)) if items.keys else None,
        attempt=attempt,
        alone=bool(suspect),
        depth=depth,
        cursors={index: cursors[seq] for index, seq in enumerate(seqs) if seq in cursors} if cursors else {},
        tallies=_tallies(tx, job, generation, (graph, position)),
        revokes=tuple(json.loads(revokes)) if revokes else (),
    )


def _tallies(
    tx: Transaction, job: str, generation: int, stage: tuple[Graph, int]
) -> dict[str, tuple[Tally, Tally]] | None:
    """What a barrier sees of the stages it comes after: they are closed, so these counts are final."""
    graph, position = stage
    spec = graph.stages[position]
    if spec.kind is not Kind.BARRIER:
        return None
    sums = {row[0]: row[1:] for row in tx.all("stage_sums", job=job)}
    tallies: dict[str, tuple[Tally, Tally]] = {}
    for at, name, total, done, dead, cancelled, _, _ in tx.all("stage_tallies", job=job, generation=generation):
        if name in spec.after:
            own = Tally(total, 0, 0, done, dead, cancelled, sealed=True, closed=True)
            every = sums[at]
            tallies[name] = own, Tally(every[0], 0, 0, every[1], every[2], every[3], sealed=True, closed=True)
    return tallies


def renew(tx: Transaction, holder: Holder, fences: Sequence[int]) -> Renewed:
    if holder.hold_s <= 0:
        tx.run("worker_goodbye", id=holder.worker)
        return Renewed(frozenset())
    seen(tx, holder)
    now = tx.now()
    moment = {"boot": tx.boot, "now": now}
    kept, ending = set(), set()
    for fence in sorted(fences):
        if tx.value("claim_renew", fence=fence, until=now + holder.hold_s, hold_s=holder.hold_s, **moment):
            kept.add(fence)
        elif tx.value("claim_alive", fence=fence, **moment):
            ending.add(fence)
    return Renewed(frozenset(kept), frozenset(ending))
