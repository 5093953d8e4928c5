"""A witness looks at a job's account again and again and objects as soon as it stops being sound.

One look proves what can be proved of an instant (`recount`). Looks that follow each other prove what
only a history can: an end never changes, a closed stage stays closed, a finish line stays crossed and
progress does not go back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.core import bits
from headrace.core.audit import JobAudit
from headrace.core.jobs import JobView
from headrace.core.recount import Finding, overall, recount

ItemId = tuple[int, int, int]


def ends_of(audit: JobAudit) -> dict[ItemId, str]:
    """By (generation, position, seq): `done`, or `failed` for dead and cancelled; open items are left out."""
    found: dict[ItemId, str] = {}
    seqs = {chunk.id: chunk for chunk in audit.chunks}
    rows = [(chunk.id, 0, chunk.low, chunk.high) for chunk in audit.chunks]
    rows += [(claim.chunk, claim.lo, claim.low, claim.high) for claim in audit.claims if claim.live]
    for chunk_id, lo, low, high in rows:
        chunk = seqs[chunk_id]
        for name, plane in (("done", low & ~high), ("failed", high & ~low)):
            for index in bits.indexes(plane):
                found[(chunk.generation, chunk.position, chunk.seqs[lo + index])] = name
    return found


@dataclass(slots=True)
class WitnessMemory:
    """What the last look at one job saw."""

    ends: dict[ItemId, str] = field(default_factory=dict)
    closed: set[tuple[int, int]] = field(default_factory=set)
    finishes: tuple[int, ...] = ()


class Witness:
    """Remembers the account of every job it was shown."""

    def __init__(self) -> None:
        self._memories: dict[str, WitnessMemory] = {}

    def look(self, audit: JobAudit) -> list[Finding]:
        """What is wrong now, alone or compared with the look before."""
        findings = recount(audit)
        if findings:
            return findings
        before = self._memories.get(audit.job, WitnessMemory())
        now = WitnessMemory(ends_of(audit), _closed(audit), audit.finishes)
        self._memories[audit.job] = now
        before.ends = {item: end for item, end in before.ends.items() if item[0] > audit.pruned}
        return _compare(before, now, audit.job)

    def compare(self, audit: JobAudit, view: JobView) -> list[Finding]:
        """Whether people are shown the tallies that the chunks of all generations hold."""
        counted = overall(audit)
        findings = []
        for position, spec in enumerate(view.graph.stages):
            shown, found = view.stages[spec.name], counted[position]
            if shown != found:
                findings.append(Finding("D1", f"people see {shown}, the chunks hold {found}", f"stage {spec.name}"))
        return findings


def _closed(audit: JobAudit) -> set[tuple[int, int]]:
    return {(stage.generation, stage.position) for stage in audit.stages if stage.closed}


def _compare(before: WitnessMemory, now: WitnessMemory, job: str) -> list[Finding]:
    findings = []
    for item, end in before.ends.items():
        if now.ends.get(item) != end:
            findings.append(Finding("L2", f"item {item} was {end} and is {now.ends.get(item, 'open')}", f"job {job}"))
    for stage in sorted(before.closed - now.closed):
        findings.append(Finding("L4", f"stage {stage} was closed and is open", f"job {job}"))
    for item in sorted(set(now.ends) - set(before.ends)):
        if item[:2] in before.closed:
            findings.append(Finding("L3", f"item {item} ended after its stage had closed", f"job {job}"))
    if now.finishes[: len(before.finishes)] != before.finishes:
        findings.append(Finding("L4", f"finish lines {before.finishes} became {now.finishes}", f"job {job}"))
    return findings
