"""The account of one job proved again from its chunks and claims, with no trust in its tallies.

Every item lies in one or more chunks: a fresh one, and one more for every time it was moved (a retry, a
give-back, a lost claim). Exactly one of these places is not *moved*, and there the item waits, is held
by one live claim, or has ended. Everything else follows by counting places: conservation, what a
closed stage must show, and when a generation may have a finish line. What the proof finds wrong is a list of
findings; a sound account gives none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.core.audit import ChunkRow, ClaimRow, JobAudit, StageRow
from headrace.core.tally import JobState, Tally, over_generations, state_at_end

StageId = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: its number in the list of invariants, what is wrong, and where."""

    invariant: str
    what: str
    where: str


@dataclass(slots=True)
class _Count:
    """What the chunks of one stage of one generation hold, counted item by item."""

    fresh: int = 0
    waiting: int = 0
    held: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    chunks_open: int = 0
    folded: Counter[str] = field(default_factory=Counter)
    places: Counter[int] = field(default_factory=Counter)
    moves: Counter[int] = field(default_factory=Counter)
    origins: Counter[int] = field(default_factory=Counter)


def recount(audit: JobAudit) -> list[Finding]:
    """Everything that is wrong with the account; empty if it is sound."""
    claims = _by_chunk(audit)
    findings = list(_check_orphans(audit))
    counted = [chunk for chunk in audit.chunks if _readable(audit, chunk.generation)]
    for chunk in counted:
        findings += _check_planes(chunk)
        findings += _check_claims(chunk, claims[chunk.id])
    counts = _count(counted, claims)
    for stage in audit.stages:
        if _readable(audit, stage.generation):
            count = counts[(stage.generation, stage.position)]
            findings += _check_items(stage, count)
            findings += _check_tally(stage, count)
            findings += _check_dead(audit, stage, count)
        findings += _check_closed(stage)
        findings += _check_feeders(audit, stage)
    findings += _check_homeless(audit, counts)
    findings += _check_finishes(audit)
    findings += _check_redriven(audit)
    findings += _check_state(audit)
    return findings


def tallies(audit: JobAudit) -> dict[StageId, Tally]:
    """The tally of every stage by (generation, position), from the chunks alone."""
    counts = _count(audit.chunks, _by_chunk(audit))
    found = {}
    for stage in audit.stages:
        c = counts[(stage.generation, stage.position)]
        sealed = stage.feeders_open == 0
        found[(stage.generation, stage.position)] = Tally(
            c.fresh, c.waiting, c.held, c.done, c.dead, c.cancelled, sealed, stage.closed
        )
    return found


def overall(audit: JobAudit) -> dict[int, Tally]:
    """By position, the tally over all generations: from the chunks where they are still there, and from the letters."""
    counted = tallies(audit)
    redriven = Counter((row.redriven_in, row.position) for row in audit.dead)
    passages: defaultdict[int, list[tuple[Tally, int]]] = defaultdict(list)
    for stage in sorted(audit.stages, key=lambda row: row.generation):
        own = counted[(stage.generation, stage.position)]
        if not _readable(audit, stage.generation):
            ends = (stage.done, stage.dead, stage.cancelled)
            own = Tally(stage.total, 0, 0, *ends, sealed=stage.feeders_open == 0, closed=stage.closed)
        passages[stage.position].append((own, redriven[(stage.generation, stage.position)]))
    return {position: over_generations(found) for position, found in passages.items()}


def dropped(audit: JobAudit) -> int:
    """How many items cannot be recounted, because retention has passed: only their tallies are left."""
    return sum(stage.total for stage in audit.stages if not _readable(audit, stage.generation))


def explain_open(audit: JobAudit) -> list[str]:
    """What is open and why, one sentence per open stage of the newest generation."""
    if not audit.open:
        return []
    counts = tallies(audit)
    sentences = []
    for stage in audit.stages:
        if stage.generation != audit.generation or stage.closed:
            continue
        tally = counts[(stage.generation, stage.position)]
        sentences.append(f"{stage.name}: {_why_open(audit, stage, tally)}")
    return sentences


def _why_open(audit: JobAudit, stage: StageRow, tally: Tally) -> str:
    reasons = []
    if tally.waiting:
        reasons.append(f"{tally.waiting:,} waiting")
    if tally.held:
        reasons.append(f"{tally.held:,} held by workers")
    if stage.feeders_open:
        names = ", ".join(row.name for row in _open_feeders(audit, stage))
        reasons.append(f"not sealed: it waits for {names or f'{stage.feeders_open} stages'} to close")
    ended = f"{tally.ended:,} of {tally.total:,} ended"
    return f"{ended}; " + "; ".join(reasons or ["nothing is open and it did not close"])


def _by_chunk(audit: JobAudit) -> defaultdict[int, list[ClaimRow]]:
    """The live claims of each chunk: ended ones were folded into it and say nothing any more."""
    claims: defaultdict[int, list[ClaimRow]] = defaultdict(list)
    for claim in audit.claims:
        if claim.live:
            claims[claim.chunk].append(claim)
    return claims


def _readable(audit: JobAudit, generation: int) -> bool:
    """Whether the chunks of this generation are still there to be counted."""
    return generation > audit.pruned


def _check_orphans(audit: JobAudit) -> Iterator[Finding]:
    known = {chunk.id for chunk in audit.chunks}
    for claim in audit.claims:
        if claim.live and claim.chunk not in known:
            yield Finding("L1", f"a live claim holds chunk {claim.chunk}, which is gone", f"claim {claim.fence}")


def _check_planes(chunk: ChunkRow) -> Iterator[Finding]:
    """The bit planes are the truth; the counts beside them must say the same."""
    where = _of_chunk(chunk)
    everything = (1 << chunk.count) - 1
    if (chunk.low | chunk.high) & ~everything:
        yield Finding("L1", "ends are noted for items beyond its count", where)
    if not 0 <= chunk.next <= chunk.count or len(chunk.seqs) != chunk.count:
        yield Finding("L1", f"next {chunk.next} and {len(chunk.seqs)} seqs do not fit {chunk.count} items", where)
    yield from _check_plane_counts(chunk, where)
    if chunk.staged:
        if chunk.low or chunk.high or chunk.next or chunk.ended:
            yield Finding("L3", "a staged chunk is in no count, yet something of it was granted or ended", where)
        return
    if (chunk.low | chunk.high) >> max(0, chunk.next):
        yield Finding("L1", "items at or after next have ended without being passed", where)
    ended = chunk.done + chunk.dead + chunk.cancelled + chunk.moved
    if chunk.ended != (ended == chunk.count):
        yield Finding("L4", f"{ended} of {chunk.count} items have left, and ended says {chunk.ended}", where)


def _check_plane_counts(row: ChunkRow | ClaimRow, where: str) -> Iterator[Finding]:
    found = {
        "done": (row.low & ~row.high).bit_count(),
        "dead or cancelled": (row.high & ~row.low).bit_count(),
        "moved": (row.low & row.high).bit_count(),
    }
    said = {"done": row.done, "dead or cancelled": row.dead + row.cancelled, "moved": row.moved}
    for end, number in found.items():
        if said[end] != number or min(row.dead, row.cancelled) < 0:
            yield Finding("L1", f"{end}: {said[end]} counted, {number} in the bit planes", where)


def _check_claims(chunk: ChunkRow, claims: list[ClaimRow]) -> Iterator[Finding]:
    """Live claims of one chunk lie before next, apart from each other, over items the chunk still calls open."""
    taken = 0
    for claim in claims:
        where = f"claim {claim.fence} of {_of_chunk(chunk)}"
        yield from _check_plane_counts(claim, where)
        if not 0 <= claim.lo < claim.hi <= chunk.next:
            yield Finding("L1", f"holds [{claim.lo}, {claim.hi}), next is {chunk.next}", where)
        if (claim.low | claim.high) >> (claim.hi - claim.lo):
            yield Finding("L1", "ends are noted for items beyond its slice", where)
        slice_bits = ((1 << (claim.hi - claim.lo)) - 1) << claim.lo
        if slice_bits & taken:
            yield Finding("N2", "holds items that another live claim holds", where)
        if slice_bits & (chunk.low | chunk.high):
            yield Finding("L2", "holds items that have ended", where)
        taken |= slice_bits
    if chunk.staged:
        return
    lost = ((1 << chunk.next) - 1) & ~(taken | chunk.low | chunk.high)
    if lost:
        first = (lost & -lost).bit_length() - 1
        seq = chunk.seqs[first] if first < len(chunk.seqs) else "unknown"
        yield Finding(
            "D1", f"{lost.bit_count()} items are neither waiting, held nor ended, first seq {seq}", _of_chunk(chunk)
        )


def _count(chunks: Sequence[ChunkRow], claims: defaultdict[int, list[ClaimRow]]) -> defaultdict[StageId, _Count]:
    counts: defaultdict[StageId, _Count] = defaultdict(_Count)
    for chunk in chunks:
        if chunk.staged:
            continue
        count = counts[(chunk.generation, chunk.position)]
        live = claims[chunk.id]
        _count_numbers(count, chunk, live)
        _count_places(count, chunk, live)
    return counts


def _count_numbers(count: _Count, chunk: ChunkRow, live: list[ClaimRow]) -> None:
    left = chunk.done + chunk.dead + chunk.cancelled + chunk.moved
    held = sum(c.hi - c.lo - (c.low | c.high).bit_count() for c in live)
    settled = sum((c.low | c.high).bit_count() for c in live)
    count.fresh += chunk.count if chunk.fresh else 0
    count.held += held
    count.waiting += chunk.count - left - held - settled
    count.done += chunk.done + sum(c.done for c in live)
    count.dead += chunk.dead + sum(c.dead for c in live)
    count.cancelled += chunk.cancelled + sum(c.cancelled for c in live)
    count.chunks_open += not chunk.ended
    if chunk.ended:
        count.folded["total"] += chunk.count if chunk.fresh else 0
        count.folded["done"] += chunk.done
        count.folded["dead"] += chunk.dead
        count.folded["cancelled"] += chunk.cancelled


def _count_places(count: _Count, chunk: ChunkRow, live: list[ClaimRow]) -> None:
    moved = chunk.low & chunk.high
    for claim in live:
        moved |= (claim.low & claim.high) << claim.lo
    count.places.update(chunk.seqs)
    count.moves.update(seq for offset, seq in enumerate(chunk.seqs) if moved >> offset & 1)
    if chunk.fresh:
        count.origins.update(chunk.seqs)


def _check_items(stage: StageRow, count: _Count) -> Iterator[Finding]:
    """Each item is fresh in one chunk, moved on from all its places but one, and open or ended in that one."""
    where = _of_stage(stage)
    for seq, times in count.places.items():
        if count.origins[seq] != 1:
            yield Finding("L1", f"item {seq} entered {count.origins[seq]} times", where)
        if times - count.moves[seq] != 1:
            yield Finding("L1", f"item {seq} stands in {times - count.moves[seq]} places", where)
    ended = count.done + count.dead + count.cancelled
    if count.fresh != count.waiting + count.held + ended:
        parts = f"{count.waiting} waiting + {count.held} held + {ended} ended"
        yield Finding("D1", f"{count.fresh} submitted ≠ {parts}", where)


def _check_tally(stage: StageRow, count: _Count) -> Iterator[Finding]:
    """A stage's tally is the sum of its ended chunks, no more and no less."""
    for name in ("total", "done", "dead", "cancelled"):
        said, found = getattr(stage, name), count.folded[name]
        if said != found:
            yield Finding("L4", f"{name}: the tally says {said}, its ended chunks hold {found}", _of_stage(stage))
    if stage.closed and count.chunks_open:
        yield Finding("L4", f"closed with {count.chunks_open} open chunks", _of_stage(stage))


def _check_dead(audit: JobAudit, stage: StageRow, count: _Count) -> Iterator[Finding]:
    """A dead letter stands for an item that died here, once; without a purge every death has its letter."""
    stage_id = (stage.generation, stage.position)
    letters = Counter(row.seq for row in audit.dead if (row.generation, row.position) == stage_id)
    for seq, times in letters.items():
        if times > 1:
            yield Finding("L1", f"item {seq} has {times} dead letters", _of_stage(stage))
        if not count.places[seq]:
            yield Finding("D2", f"a dead letter names item {seq}, which was never in the stage", _of_stage(stage))
    if len(letters) > count.dead or (not audit.purged and len(letters) != count.dead):
        yield Finding("D1", f"{count.dead} items died and left {len(letters)} dead letters", _of_stage(stage))


def _check_closed(stage: StageRow) -> Iterator[Finding]:
    if not stage.closed:
        return
    if stage.feeders_open:
        yield Finding("L3", f"closed while {stage.feeders_open} feeders were open", _of_stage(stage))
    if stage.done + stage.dead + stage.cancelled != stage.total:
        ended = stage.done + stage.dead + stage.cancelled
        yield Finding("L4", f"closed with {ended} of {stage.total} ended", _of_stage(stage))


def _open_feeders(audit: JobAudit, stage: StageRow) -> list[StageRow]:
    if audit.graph is None:
        return []
    rows = [row for row in audit.stages if row.generation == stage.generation and not row.closed]
    return [row for row in rows if stage.position in audit.graph.arrows(row.position)]


def _check_feeders(audit: JobAudit, stage: StageRow) -> Iterator[Finding]:
    if audit.graph is None:
        return
    found = len(_open_feeders(audit, stage))
    if stage.feeders_open != found:
        yield Finding("L3", f"feeders_open is {stage.feeders_open}, {found} feeders are open", _of_stage(stage))


def _check_homeless(audit: JobAudit, counts: defaultdict[StageId, _Count]) -> Iterator[Finding]:
    known = {(stage.generation, stage.position) for stage in audit.stages}
    for generation, position in sorted(set(counts) - known):
        yield Finding("L4", "chunks of a stage that has no tally", f"generation {generation} position {position}")


def _check_finishes(audit: JobAudit) -> Iterator[Finding]:
    """One finish line and one event per ended generation; a generation ends with its last stage."""
    finishes, events = Counter(audit.finishes), Counter(audit.events)
    for generation in sorted({stage.generation for stage in audit.stages} | set(finishes) | set(events)):
        rows = [stage for stage in audit.stages if stage.generation == generation]
        closed = bool(rows) and all(stage.closed for stage in rows)
        where = f"generation {generation}"
        if finishes[generation] != closed:
            still = ", ".join(stage.name for stage in rows if not stage.closed) or "none"
            yield Finding("L4", f"{finishes[generation]} finish lines, open stages: {still}", where)
        if events[generation] != finishes[generation]:
            yield Finding("E1", f"{finishes[generation]} finish lines, {events[generation]} events", where)
    if audit.open == bool(finishes[audit.generation]):
        says = "open" if audit.open else "ended"
        yield Finding("L4", f"the job says {says}, its finish line says otherwise", f"generation {audit.generation}")


def _check_redriven(audit: JobAudit) -> Iterator[Finding]:
    """What a generation took up again are the letters that say so."""
    letters = Counter((row.redriven_in, row.position) for row in audit.dead)
    for stage in audit.stages:
        found = letters[(stage.generation, stage.position)]
        if stage.redriven != found:
            yield Finding("D2", f"{stage.redriven} letters were redriven, {found} say so", _of_stage(stage))


def _check_state(audit: JobAudit) -> Iterator[Finding]:
    """A job has ended well only if what is dead over all generations is within tolerance."""
    if audit.open or audit.graph is None:
        return
    sums = overall(audit)
    stages = [(spec.tolerate, sums.get(at, Tally())) for at, spec in enumerate(audit.graph.stages)]
    expected = state_at_end(stages, audit.state is JobState.CANCELLED, audit.generation)
    if audit.state is not expected:
        dead = ", ".join(f"{spec.name} {sums[at].dead}" for at, spec in enumerate(audit.graph.stages) if at in sums)
        yield Finding("H2", f"the job says {audit.state}, its dead say {expected}: {dead}", f"job {audit.job}")


def _of_chunk(chunk: ChunkRow) -> str:
    return f"chunk {chunk.id} of generation {chunk.generation} position {chunk.position}"


def _of_stage(stage: StageRow) -> str:
    return f"stage {stage.name} of generation {stage.generation}"
