"""Concurring: many hands over one store, at once, in a random order; everything still ends once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from headrace.core.claims import Claim, Settlement, Want
from headrace.core.parcels import Parcel
from headrace.core.tally import JobState, Tolerance
from headrace.ports.backend import Backend
from headrace.testing.contracts.bench import Bench, BenchFlow, again, barrier, died, flow, parcel, work

HANDS = 8
ROUNDS_MAX = 4_000
Ended = tuple[str, str, int]
GOES_ON = Tolerance(percent=100.0)


@dataclass(slots=True)
class ToldEnds:
    """What the hands were told, to be compared with what the store counted."""

    done: Counter[Ended] = field(default_factory=Counter)
    dead: Counter[Ended] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    fences: list[int] = field(default_factory=list)


class ConcurringContract:
    @pytest.mark.parametrize("seed", range(4))
    async def test_many_hands_end_every_item_once(self, bench: Bench, handles: Sequence[Backend], seed: int) -> None:
        chance = Random(seed)
        declared = random_flow(chance)
        jobs = [await bench.submit(declared, {"a": chance.randint(1, 120)}, job=f"j{n}") for n in range(2)]
        submitted = sum([(await bench.tally(job, "a")).total for job in jobs])
        ledger = ToldEnds()
        await asyncio.gather(
            *(_work(handles[n % len(handles)], declared, jobs, Random(seed * 100 + n), ledger) for n in range(HANDS))
        )
        await bench.look()
        assert len(set(ledger.fences)) == len(ledger.fences)
        assert set(ledger.done.values()) | set(ledger.dead.values()) <= {1}
        assert not ledger.done.keys() & ledger.dead.keys()
        totals = Counter({"a": submitted}) + ledger.sent
        for spec in declared.graph.stages:
            counted = [await bench.tally(job, spec.name) for job in jobs]
            expected = len(jobs) if spec.name == "end" else totals[spec.name]
            assert sum(tally.total for tally in counted) == expected
            assert sum(tally.done for tally in counted) == _ended(ledger.done, spec.name)
            assert sum(tally.dead for tally in counted) == _ended(ledger.dead, spec.name)

    async def test_one_settlement_from_many_hands_counts_once(self, bench: Bench, handles: Sequence[Backend]) -> None:
        job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 5})
        claim = await bench.claim("a")
        settlement = Settlement(claim.fence, 1, done=0b11111, sends=(parcel("b", 3),))
        answers = await asyncio.gather(*(handles[n % len(handles)].settle([settlement]) for n in range(HANDS)))
        await bench.look()
        assert all(answer.accepted for (answer,) in answers)
        assert (await bench.tally(job, "a")).done == 5
        assert (await bench.tally(job, "b")).total == 3

    async def test_the_last_two_settlements_of_two_feeders_close_their_stage(
        self, bench: Bench, handles: Sequence[Backend]
    ) -> None:
        for _ in range(10):
            job = await bench.submit(flow(work("a", "c"), work("b", "c"), work("c")), {"a": 1, "b": 1})
            claims = [await bench.claim("a"), await bench.claim("b")]
            await asyncio.gather(
                *(handles[n % len(handles)].settle([Settlement(c.fence, 1, done=1)]) for n, c in enumerate(claims))
            )
            await bench.look()
            assert await bench.state(job) is JobState.FINISHED

    async def test_many_hands_that_claim_at_once_share_nothing(self, bench: Bench, handles: Sequence[Backend]) -> None:
        await bench.submit(flow(work("a")), {"a": 60})
        want = Want("flow", "a", 10, 10)
        grants = await asyncio.gather(
            *(handles[n % len(handles)].claim(f"worker-{n}", [want], bench.passage.hold_s) for n in range(HANDS))
        )
        await bench.look()
        seqs = [seq for grant in grants for claim in grant.claims for seq in claim.seqs]
        fences = [claim.fence for grant in grants for claim in grant.claims]
        assert len(seqs) == len(set(seqs)) > 0
        assert len(fences) == len(set(fences))

    async def test_a_cancel_meets_settlements_under_way(self, bench: Bench, handles: Sequence[Backend]) -> None:
        for _ in range(5):
            job = await bench.submit(flow(work("a", "b"), work("b")), {"a": 40})
            claims = [await bench.claim("a", room=5) for _ in range(6)]
            await asyncio.gather(
                *(
                    handles[n % len(handles)].settle([Settlement(c.fence, 1, done=0b111, sends=(parcel("b", 2),))])
                    for n, c in enumerate(claims)
                ),
                handles[-1].cancel(job),
            )
            await bench.look()
            assert await bench.state(job) is JobState.CANCELLED


def random_flow(chance: Random) -> BenchFlow:
    """A small graph with a fan-out, a stage that may feed itself, and a barrier at the end."""
    itself = ("b",) if chance.random() < 0.5 else ()
    stages = [
        work("a", "b", "c", tolerate=GOES_ON),
        work("b", "c", *itself, tolerate=GOES_ON, depth_max=3),
        work("c", tolerate=GOES_ON, unique=chance.random() < 0.3),
        barrier("end", "b", "c"),
    ]
    return flow(*stages)


async def _work(store: Backend, declared: BenchFlow, jobs: Sequence[str], chance: Random, ledger: ToldEnds) -> None:
    names = [spec.name for spec in declared.graph.stages]
    for _ in range(ROUNDS_MAX):
        wants = [Want("flow", name, chance.randint(1, 12), chance.randint(1, 12)) for name in names]
        granted = await store.claim(f"worker-{id(chance)}", wants, 60.0)
        for claim in granted.claims:
            ledger.fences.append(claim.fence)
            await _settle(store, declared, claim, chance, ledger)
        if not granted.claims:
            await asyncio.sleep(0.002)
            if all([(await store.job(job)).state is not JobState.OPEN for job in jobs]):
                return
    raise AssertionError("the jobs did not end")


async def _settle(store: Backend, declared: BenchFlow, claim: Claim, chance: Random, ledger: ToldEnds) -> None:
    """Settle in one or two steps, some items done, some dead, some again, some given back; some calls twice."""
    cut = chance.randint(0, claim.count)
    for step, indexes in enumerate((range(cut), range(cut, claim.count)), start=1):
        done, dead, later = 0, [], []
        for index in indexes:
            fate = chance.random() if claim.attempt < 3 else 0.0
            if fate < 0.7:
                done |= 1 << index
            elif fate < 0.8:
                dead.append(died(index))
            elif fate < 0.95:
                later.append(again(index, 0.0, claim.attempt + 1))
        sends = _sends(declared, claim, chance) if done else ()
        settlement = Settlement(claim.fence, step, done, tuple(dead), tuple(later), sends, end=step == 2)
        for _ in range(1 + (chance.random() < 0.2)):
            (answer,) = await store.settle([settlement])
            assert answer.accepted, answer
        _note(claim, settlement, ledger)


def _sends(declared: BenchFlow, claim: Claim, chance: Random) -> tuple[Parcel, ...]:
    spec = declared.graph.stages[declared.graph.position(claim.stage)]
    found = []
    for target in spec.feeds:
        depth = claim.depth + 1 if target == claim.stage else 0
        if chance.random() < 0.4 and depth <= 3:
            count = chance.randint(1, 4)
            keys = [f"{claim.job}-{claim.fence}-{target}-{index}-{chance.random()}" for index in range(count)]
            found.append(parcel(target, count, keys=keys, depth=depth))
    return tuple(found)


def _note(claim: Claim, settlement: Settlement, ledger: ToldEnds) -> None:
    for index in range(claim.count):
        if settlement.done >> index & 1:
            ledger.done[(claim.job, claim.stage, claim.seqs[index])] += 1
    for loss in settlement.dead:
        ledger.dead[(claim.job, claim.stage, claim.seqs[loss.index])] += 1
    for sent in settlement.sends:
        ledger.sent[sent.stage] += sent.count


def _ended(ends: Counter[Ended], stage: str) -> int:
    return sum(times for (_, name, _), times in ends.items() if name == stage)
