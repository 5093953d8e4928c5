"""The bench a contract works at: a store, a way to let time pass, and a witness who looks after every call.

Whatever a test does through the bench, the account of every job it submitted is recounted before the
next line runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from headrace.core.audit import JobAudit
from headrace.core.claims import Again, Claim, Grant, Loss, Renewed, Settled, Settlement, Swept, Want
from headrace.core.graph import Graph, Kind, StageSpec
from headrace.core.jobs import DeadFilter, JobFilter, Submission, Submitted
from headrace.core.parcels import Encoded, Parcel, pack
from headrace.core.recount import tallies
from headrace.core.tally import JobState, Tally
from headrace.ports.backend import Backend
from headrace.testing.passage import Passage
from headrace.testing.witness import Witness

ALL = -1


@dataclass(frozen=True, slots=True)
class BenchFlow:
    """A graph and the name under which its queues are known."""

    graph: Graph
    name: str = "flow"


def flow(*specs: StageSpec, name: str = "flow") -> BenchFlow:
    return BenchFlow(Graph.build(specs), name)


def work(name: str, *feeds: str, **options: Any) -> StageSpec:
    return StageSpec(name, Kind.WORK, feeds, **options)


def barrier(name: str, *after: str, **options: Any) -> StageSpec:
    return StageSpec(name, Kind.BARRIER, after=after, **options)


def external(name: str, *after: str, **options: Any) -> StageSpec:
    return StageSpec(name, Kind.EXTERNAL, after=after, **options)


def parcel(stage: str, items: int, keys: Iterable[str | None] | None = None, **options: Any) -> Parcel:
    """One parcel of items whose payloads tell where they belong; `options` are fields of a parcel."""
    names = list(keys) if keys is not None else [None] * items
    encoded = [Encoded(f"{stage}-{index}".encode(), name) for index, name in enumerate(names)]
    return replace(next(iter(pack(stage, encoded))), **options)


class Bench:
    """Short words for long calls. Every verb here is the port's verb of the same name."""

    def __init__(self, store: Backend, passage: Passage) -> None:
        self.store = store
        self.passage = passage
        self.witness = Witness()
        self.jobs: list[str] = []
        self._names = count(1)
        self._steps: dict[int, int] = {}

    async def submit(self, declared: BenchFlow, items: Mapping[str, int] | Sequence[Parcel], **options: Any) -> str:
        """Open a job with so many items per stage, or with these parcels; its id."""
        return (await self.try_submit(declared, items, **options)).job

    async def try_submit(
        self, declared: BenchFlow, items: Mapping[str, int] | Sequence[Parcel], **options: Any
    ) -> Submitted:
        if isinstance(items, Mapping):
            parcels = tuple(parcel(stage, number) for stage, number in items.items() if number)
        else:
            parcels = tuple(items)
        job = options.pop("job", None) or f"job-{next(self._names):04d}"
        submitted = await self.store.submit(Submission(job, declared.name, declared.graph, parcels, **options))
        if submitted.job not in self.jobs:
            self.jobs.append(submitted.job)
        await self.look()
        return submitted

    async def grant(self, stage: str, room: int = 1_000, **options: Any) -> Grant:
        """Claim from one stage. Options: worker, flow, slice_max, hold_s."""
        want = Want(options.get("flow", "flow"), stage, room, options.get("slice_max", room))
        hold_s = options.get("hold_s", self.passage.hold_s)
        granted = await self.store.claim(options.get("worker", "worker-1"), [want], hold_s)
        await self.look()
        return granted

    async def claim(self, stage: str, room: int = 1_000, **options: Any) -> Claim:
        """The one claim that must be there."""
        claims = (await self.grant(stage, room, **options)).claims
        assert claims, f"nothing was granted from {stage!r}"
        assert len(claims) == 1, f"one claim was expected from {stage!r}, {len(claims)} came"
        return claims[0]

    async def claim_all(self, stage: str, **options: Any) -> list[Claim]:
        """Everything that waits, in as many claims as it takes."""
        found: list[Claim] = []
        while claims := (await self.grant(stage, **options)).claims:
            found += claims
        return found

    async def settle(self, claim: Claim, done: int | Iterable[int] = (), **fields: Any) -> Settled:
        """Settle the next step of a claim; `done` is ALL or the indexes that are done."""
        step = fields.pop("step", self._steps.get(claim.fence, 0) + 1)
        settlement = Settlement(claim.fence, step, done_bits(claim, done), **fields)
        answer = await self.repeat(settlement)
        if answer.accepted:
            self._steps[claim.fence] = step
        return answer

    async def accept(self, claim: Claim, done: int | Iterable[int] = ALL, **fields: Any) -> None:
        """Settle, and insist that it is accepted."""
        answer = await self.settle(claim, done, **fields)
        assert answer.accepted, f"refused: {answer.reason}"

    async def repeat(self, settlement: Settlement) -> Settled:
        """Send one settlement as it is."""
        answers = await self.store.settle([settlement])
        await self.look()
        assert len(answers) == 1
        assert answers[0].fence == settlement.fence
        return answers[0]

    async def send(self, owner: int | str, *parcels: Parcel) -> bool:
        written = await self.store.send(owner, parcels)
        await self.look()
        return written

    def renew(self, worker: str, *claims: Claim, hold_s: float | None = None) -> Renewed:
        return self.store.renew(worker, [claim.fence for claim in claims], hold_s or self.passage.hold_s)

    async def sweep(self) -> Swept:
        swept = await self.store.sweep()
        await self.look()
        return swept

    async def lose(self, stage: str, room: int = 1_000, **options: Any) -> Claim:
        """Claim, let the hold pass, sweep. A holder of suspects is lost after an empty step: it had begun."""
        claim = await self.claim(stage, room, hold_s=self.passage.brief_s, **options)
        if claim.alone:
            await self.accept(claim, [], end=False)
        await self.past_brief()
        assert (await self.sweep()).lost == 1
        return claim

    async def past_brief(self) -> None:
        await self.passage.past(self.passage.brief_s)

    async def cancel(self, job: str) -> bool:
        answer = await self.store.cancel(job)
        await self.look()
        return answer

    async def cancel_item(self, job: str, stage: str, seq: int) -> bool:
        answer = await self.store.cancel_item(job, stage, seq)
        await self.look()
        return answer

    async def pause(self, job: str) -> bool:
        answer = await self.store.pause(job)
        await self.look()
        return answer

    async def resume(self, job: str) -> bool:
        answer = await self.store.resume(job)
        await self.look()
        return answer

    async def redrive(self, **which: Any) -> int:
        taken = await self.store.redrive(DeadFilter(**which))
        await self.look()
        return taken

    async def purge(self, **which: Any) -> int:
        removed = await self.store.purge(DeadFilter(**which))
        await self.look()
        return removed

    async def close_external(self, job: str, stage: str, event_id: str) -> bool:
        first = await self.store.close_external(job, stage, event_id)
        await self.look()
        return first

    async def tally(self, job: str, stage: str) -> Tally:
        return (await self.store.job(job)).stages[stage]

    async def newest(self, job: str, stage: str) -> Tally:
        """The tally of a stage in the newest generation alone."""
        audit = await self.audit(job)
        (position,) = {row.position for row in audit.stages if row.name == stage}
        return tallies(audit)[(audit.generation, position)]

    async def counts(self, job: str, stage: str) -> tuple[int, int, int, int, int]:
        """waiting, held, done, dead, cancelled."""
        tally = await self.tally(job, stage)
        return tally.waiting, tally.held, tally.done, tally.dead, tally.cancelled

    async def state(self, job: str) -> JobState:
        return (await self.store.job(job)).state

    async def listed(self, state: JobState) -> list[str]:
        """The jobs that a list of one state shows."""
        return [view.id for view in await self.store.jobs(JobFilter(state=state))]

    async def audit(self, job: str) -> JobAudit:
        return await self.store.audit(job)

    async def look(self) -> None:
        """Recount every job, compare with the look before and with what people are shown."""
        for job in self.jobs:
            audit, view = await self.store.audit(job), await self.store.job(job)
            findings = self.witness.look(audit) + self.witness.compare(audit, view)
            assert not findings, "\n".join(map(str, findings))
            assert view.state is audit.state

    async def drain(self, job: str, rounds_max: int = 1_000) -> JobState:
        """Answer Done to everything until the job ends."""
        for _ in range(rounds_max):
            view = await self.store.job(job)
            if view.state is not JobState.OPEN:
                return view.state
            for spec in view.graph.stages:
                for claim in (await self.grant(spec.name, flow=view.flow)).claims:
                    await self.accept(claim)
        raise AssertionError(f"{job} did not end in {rounds_max} rounds")


def done_bits(claim: Claim, done: int | Iterable[int]) -> int:
    if isinstance(done, int):
        return (1 << claim.count) - 1 if done == ALL else done
    return sum(1 << index for index in done)


def died(index: int, reason: str = "broken", **fields: Any) -> Loss:
    return Loss(index, reason, **fields)


def again(index: int, delay_s: float = 0.0, attempt: int = 1) -> Again:
    return Again(index, delay_s, attempt)
