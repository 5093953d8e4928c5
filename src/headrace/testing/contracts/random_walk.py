"""Wandering: every verb in a random order, with the account recounted after each, until the job ends all the same.

A wanderer holds many claims at once, settles them in pieces, late, twice or never, stages and flips, cancels and
redrives. It remembers what the store accepted, and at the end the store must have exactly that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import pytest

from headrace.core.claims import Claim, Settlement
from headrace.core.errors import Conflict
from headrace.core.parcels import Parcel
from headrace.core.tally import JobState, Tolerance
from headrace.testing.contracts.bench import Bench, BenchFlow, again, barrier, died, external, flow, parcel, work
from headrace.testing.simulation.history import History, Holding

STEPS = 90
ROUNDS_MAX = 60
DEPTH_MAX = 3
GOES_ON = Tolerance(percent=100.0)


class WanderingContract:
    @pytest.mark.parametrize("seed", range(6))
    async def test_whatever_is_done_in_whatever_order_the_account_is_sound(self, bench: Bench, seed: int) -> None:
        await Wanderer(bench, Random(seed)).wander(STEPS)


class Wanderer:
    """One random walk over one job."""

    def __init__(self, bench: Bench, chance: Random) -> None:
        self.bench, self.chance = bench, chance
        self.declared = random_flow(chance)
        self.history = History()
        self.job = ""
        self.submitted = 0
        self.claims: list[Claim] = []
        self.lasting: set[int] = set()
        self.keys = 0

    async def wander(self, steps: int) -> None:
        self.submitted = self.chance.randint(1, 8)
        self.job = await self.bench.submit(self.declared, {"a": self.submitted}, job=f"wander-{self.chance.random()}")
        verbs: list[Callable[[], Awaitable[object]]] = [
            *[self.claim] * 8,
            *[self.settle] * 10,
            *[self.stage] * 3,
            self.renew,
            self.bench.sweep,
            self.wait,
            self.cancel_item,
            self.pause,
            self.resume,
            self.redrive,
            self.event,
            self.cancel,
        ]
        for _ in range(steps):
            await self.chance.choice(verbs)()
            assert not self.history.findings, self.history.findings
        await self.come_home()

    async def come_home(self) -> None:
        """Nothing more goes wrong: what is held is given back, and everything is answered with Done."""
        await self.bench.resume(self.job)
        for claim in self.claims:
            await self.apply(Settlement(claim.fence, self.next_step(claim)))
        for _ in range(ROUNDS_MAX):
            view = await self.bench.store.job(self.job)
            if view.state is not JobState.OPEN:
                break
            for spec in view.graph.stages:
                await self.take(spec.name, self.bench.passage.hold_s)
                if spec.name == "approval":
                    await self.bench.close_external(self.job, "approval", "event-home")
            for claim in self.claims:
                done = self.unsettled(claim)
                await self.apply(Settlement(claim.fence, self.next_step(claim), sum(1 << index for index in done)))
            await self.bench.passage.past(self.bench.passage.brief_s)
            await self.bench.sweep()
        assert await self.bench.state(self.job) is not JobState.OPEN
        self.history.compare(await self.bench.audit(self.job), self.declared.graph, self.submitted)
        assert not self.history.findings, self.history.findings

    async def claim(self) -> None:
        stage = self.chance.choice([spec.name for spec in self.declared.graph.stages])
        await self.take(stage, self.chance.choice((self.bench.passage.brief_s, self.bench.passage.hold_s)))

    async def take(self, stage: str, hold_s: float) -> None:
        granted = await self.bench.grant(stage, self.chance.randint(1, 6), hold_s=hold_s)
        # The history keeps no time here: whether a hold has passed is the store's to say.
        self.history.granted(0.0, granted, 0.0)
        self.claims += granted.claims
        if hold_s == self.bench.passage.hold_s:
            self.lasting |= {claim.fence for claim in granted.claims}

    async def settle(self) -> None:
        if not self.claims:
            return
        claim = self.chance.choice(self.claims)
        done, dead, later = 0, [], []
        for index in self.unsettled(claim):
            fate = self.chance.random()
            if fate < 0.4:
                done |= 1 << index
            elif fate < 0.5:
                dead.append(died(index))
            elif fate < 0.65:
                later.append(again(index, self.chance.choice((0.0, self.bench.passage.brief_s)), claim.attempt + 1))
        staged = self.holding(claim).parcels
        flips = tuple(number for number in staged if self.chance.random() < 0.5)
        cursor = (0, b"page") if self.chance.random() < 0.2 else None
        step = self.next_step(claim) + self.chance.choice((0, 0, 0, 0, 0, -1, 1))
        end = self.chance.random() < 0.5
        sends = self.parcels(claim, 0)
        settlement = Settlement(claim.fence, step, done, tuple(dead), tuple(later), sends, flips, cursor, end)
        for _ in range(self.chance.choice((1, 1, 2))):
            await self.apply(settlement)

    async def apply(self, settlement: Settlement) -> None:
        if settlement.step < 1:
            return
        holding = self.history.holdings[settlement.fence]
        fresh = settlement.step > holding.step
        answer = await self.bench.repeat(settlement)
        self.history.settled(0.0, [settlement], [answer])
        if answer.accepted and fresh:
            # A parcel is flipped once; its number may be used again.
            for number in settlement.flips:
                holding.parcels.pop(number, None)

    async def stage(self) -> None:
        if not self.claims:
            return
        claim = self.chance.choice(self.claims)
        number = self.chance.randint(1, 4)
        parcels = self.parcels(claim, number)[:1]
        if parcels and number not in self.holding(claim).parcels:
            written = await self.bench.send(claim.fence, *parcels)
            self.history.staged(claim.fence, parcels, written)
            # A brief hold may pass between the two.
            if written and claim.fence in self.lasting:
                assert await self.bench.send(claim.fence, *parcels)

    async def renew(self) -> None:
        self.bench.renew("worker-1", *self.chance.sample(self.claims, min(3, len(self.claims))))
        await self.bench.look()

    async def wait(self) -> None:
        await self.bench.past_brief()

    async def cancel_item(self) -> None:
        stage = self.chance.choice([spec.name for spec in self.declared.graph.stages if not spec.after])
        items = await self.bench.store.items(self.job, stage, -1, 100)
        if items:
            await self.bench.cancel_item(self.job, stage, self.chance.choice(items).seq)

    async def pause(self) -> None:
        await self.bench.pause(self.job)

    async def resume(self) -> None:
        await self.bench.resume(self.job)

    async def redrive(self) -> None:
        try:
            await self.bench.redrive(job=self.job, limit=self.chance.choice((1, 2, 1_000)))
        except Conflict:
            assert await self.bench.state(self.job) is JobState.OPEN

    async def event(self) -> None:
        if any(spec.name == "approval" for spec in self.declared.graph.stages):
            await self.bench.close_external(self.job, "approval", f"event-{self.chance.randint(1, 3)}")

    async def cancel(self) -> None:
        if self.chance.random() < 0.1:
            await self.bench.cancel(self.job)

    def parcels(self, claim: Claim, number: int) -> tuple[Parcel, ...]:
        """Something to send to the stages this one feeds; unique stages see few different keys."""
        spec = claim.graph.stages[claim.graph.position(claim.stage)]
        found = []
        for target in spec.feeds:
            depth = claim.depth + 1 if target == claim.stage else 0
            if self.chance.random() < 0.4 and depth <= DEPTH_MAX:
                keys = [f"key-{self.chance.randint(1, 9)}" for _ in range(self.chance.randint(1, 3))]
                found.append(parcel(target, len(keys), keys=keys, depth=depth, number=number))
        return tuple(found)

    def holding(self, claim: Claim) -> Holding:
        return self.history.holdings[claim.fence]

    def next_step(self, claim: Claim) -> int:
        return self.holding(claim).step + 1

    def unsettled(self, claim: Claim) -> list[int]:
        settled = self.holding(claim).settled
        return [index for index in range(claim.count) if not settled >> index & 1]


def random_flow(chance: Random) -> BenchFlow:
    """A graph with most of what a graph can have."""
    itself = ("b",) if chance.random() < 0.5 else ()
    stages = [
        work("a", "b", "c", tolerate=chance.choice((GOES_ON, Tolerance(), Tolerance(count=1)))),
        work("b", "c", *itself, tolerate=GOES_ON, depth_max=DEPTH_MAX, unique=chance.random() < 0.3),
        work("c", tolerate=chance.choice((GOES_ON, Tolerance())), unique=chance.random() < 0.3, stop_early=True),
    ]
    last = "c"
    if chance.random() < 0.5:
        stages.append(external("approval", "c"))
        last = "approval"
    stages.append(barrier("end", last, always=chance.random() < 0.5, every_generation=chance.random() < 0.7))
    return flow(*stages)
