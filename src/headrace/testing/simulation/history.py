"""The history of one run, checked as it happens: some faults leave a perfect end state behind.

The checker sees every call at the moment the store carried it out. It keeps an account of its own from claims,
settlements and sends alone, and compares it with the store's at the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.core import bits
from headrace.core.audit import JobAudit
from headrace.core.claims import CRASHES_MAX, Again, Claim, Grant, Renewed, Settled, Settlement
from headrace.core.graph import Graph, Kind
from headrace.core.jobs import DeadView
from headrace.core.parcels import Parcel
from headrace.testing.simulation.run_trace import ROUNDING_S, RunTrace
from headrace.testing.simulation.sink import SimulatedSink
from headrace.testing.witness import ends_of

Item = tuple[str, int, int, int]
"""Job, generation, position, seq."""


@dataclass(slots=True)
class Holding:
    """One claim as the history knows it."""

    claim: Claim
    until: float
    items: list[Item]
    step: int = 0
    settled: int = 0
    ended: bool = False
    parcels: dict[int, Parcel] = field(default_factory=dict)

    @property
    def unsettled(self) -> list[Item]:
        return [self.items[index] for index in bits.indexes(bits.ones(len(self.items)) & ~self.settled)]


class History(RunTrace):
    """Everything that happened, as findings, as an account, and as a fingerprint of the whole run.

    `handlers`: items are handled, and whoever handles one says `ran`; else nothing but claims and settlements is told.
    """

    def __init__(self, handlers: bool = False) -> None:
        super().__init__()
        self._handlers = handlers
        self.holdings: dict[int, Holding] = {}
        self.ends: dict[Item, str] = {}
        self.sent: Counter[tuple[str, int, str]] = Counter()
        self.sent_keys: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._ran: set[tuple[str, int]] = set()
        self._outages: set[tuple[str, int]] = set()
        self._holder: dict[Item, int] = {}
        self._last_fence = 0
        self.staged_count = 0

    def granted(self, at: float, grant: Grant, hold_s: float) -> None:
        for claim in grant.claims:
            if claim.fence <= self._last_fence:
                self.found("N1", f"fence {claim.fence} was granted after {self._last_fence}", claim.stage)
            self._last_fence = max(self._last_fence, claim.fence)
            position = claim.graph.position(claim.stage)
            items = [(claim.job, claim.generation, position, seq) for seq in claim.seqs]
            self.holdings[claim.fence] = Holding(claim, at + hold_s, items)
            for item in items:
                self._grant_item(at, claim.fence, item)

    def _grant_item(self, at: float, fence: int, item: Item) -> None:
        if item in self.ends:
            self.found("L2", f"granted after it had ended {self.ends[item]}", item)
        before = self.holdings.get(self._holder.get(item, 0))
        if before is not None and not before.ended and at < before.until - ROUNDING_S and item in before.unsettled:
            self.found("F3", f"granted under {fence} while {before.claim.fence} held it", item)
        self._holder[item] = fence

    def renewed(self, at: float, answer: Renewed, hold_s: float) -> None:
        for fence in answer.kept:
            holding = self.holdings[fence]
            if at > holding.until + ROUNDING_S:
                self.found("F3", "a claim was revived after its hold had passed", fence)
            holding.until = at + hold_s

    def settled(self, at: float, settlements: Sequence[Settlement], answers: Sequence[Settled]) -> None:
        for settlement, answer in zip(settlements, answers, strict=True):
            holding = self.holdings.get(settlement.fence)
            if holding is None:
                self.found("F2", "a settlement under a fence nobody was given", settlement.fence)
            elif answer.accepted and settlement.step > holding.step:
                self._accepted(at, holding, settlement)

    def _accepted(self, at: float, holding: Holding, settlement: Settlement) -> None:
        if holding.ended or at > holding.until + ROUNDING_S:
            self.found("F3", f"step {settlement.step} was accepted from a late holder", settlement.fence)
        if settlement.step != holding.step + 1:
            self.found("L1", f"step {settlement.step} was accepted after {holding.step}", settlement.fence)
        holding.step = settlement.step
        for index in bits.indexes(settlement.done):
            self._end(holding, index, "done")
        for loss in settlement.dead:
            self._end(holding, loss.index, "failed")
        for again in settlement.again:
            self._wait(holding, again)
        if settlement.back is not None and not settlement.end:
            self._give_back(holding, settlement.back)
        flipped = [holding.parcels[number] for number in settlement.flips if number in holding.parcels]
        for parcel in (*settlement.sends, *flipped):
            self._send(holding.claim, parcel)
        holding.ended = settlement.end

    def _give_back(self, holding: Holding, first: int) -> None:
        """What was given back is nobody's until it is granted again."""
        for index in range(first, len(holding.items)):
            if not holding.settled >> index & 1:
                holding.settled |= 1 << index
                self._holder.pop(holding.items[index], None)

    def _end(self, holding: Holding, index: int, end: str) -> None:
        item = holding.items[index]
        if self._handlers and end == "done" and (self._effect_key(item), holding.claim.fence) not in self._ran:
            self.found("H1", "is done, and its handler has not come to its end", item)
        if end == "failed" and (self._effect_key(item), holding.claim.fence) in self._outages:
            self.found("H4", "an outage was its death", item)
        if item in self.ends:
            self.found("L1", f"ended {end} after it had ended {self.ends[item]}", item)
        self.ends[item] = end
        holding.settled |= 1 << index

    def _wait(self, holding: Holding, again: Again) -> None:
        item, claim = holding.items[again.index], holding.claim
        if again.attempt > claim.attempt and (self._effect_key(item), claim.fence) in self._outages:
            self.found("H4", f"an outage spent attempt {again.attempt}", item)
        holding.settled |= 1 << again.index

    def met_outage(self, key: str, fence: int) -> None:
        """What the handler of this item needed did not answer, and the handler let that pass."""
        self._outages.add((key, fence))

    def ran(self, key: str, fence: int) -> None:
        """A handler has come to its end for the item of this effect key, under this fence."""
        self._ran.add((key, fence))

    def staged(self, owner: int | str, parcels: Sequence[Parcel], written: bool) -> None:
        holding = self.holdings.get(owner) if isinstance(owner, int) else None
        if holding is not None and written:
            self.staged_count += len(parcels)
            for parcel in parcels:
                holding.parcels.setdefault(parcel.number, parcel)

    def _send(self, claim: Claim, parcel: Parcel) -> None:
        stage = (claim.job, claim.generation, parcel.stage)
        spec = claim.graph.stages[claim.graph.position(parcel.stage)]
        if not spec.unique:
            self.sent[stage] += parcel.count
            return
        # Keys are unique in a job, over all its generations.
        known = self.sent_keys[(claim.job, parcel.stage)]
        fresh = {key for key in parcel.keys or () if key is not None} - known
        known |= fresh
        self.sent[stage] += len(fresh)

    def compare(self, audit: JobAudit, graph: Graph, submitted: int) -> None:
        """The account of this history against the store's, when a job has ended."""
        stored = ends_of(audit)
        mine = {item[1:]: end for item, end in self.ends.items() if item[0] == audit.job}
        for item, end in mine.items():
            if stored.get(item) != end:
                self.found("L1", f"was accepted as {end}, the store has {stored.get(item)}", (audit.job, *item))
        for item, end in stored.items():
            by_event = graph.stages[item[1]].kind is Kind.EXTERNAL
            if end == "done" and item not in mine and not by_event:
                self.found("L1", "is done in the store, and nobody settled it", (audit.job, *item))
        self._compare_members(audit, graph, submitted)

    def _compare_members(self, audit: JobAudit, graph: Graph, submitted: int) -> None:
        """Whatever was sent is a member of its stage, once; a redriven item was a member before."""
        for position, spec in enumerate(graph.stages):
            known: set[int] = set()
            for generation in range(1, audit.generation + 1):
                chunks = [c for c in audit.chunks if (c.generation, c.position) == (generation, position) and c.fresh]
                seqs = [seq for chunk in chunks for seq in chunk.seqs if not chunk.staged]
                new = [seq for seq in seqs if seq not in known]
                known.update(seqs)
                expected = self.sent[(audit.job, generation, spec.name)]
                expected += submitted if (generation, spec.name) == (1, graph.roots[0]) else 0
                if not spec.after and len(new) != expected:
                    self.found("L3", f"{expected} were sent in generation {generation}, {len(new)} are in", spec.name)

    def check_losses(self, letters: Sequence[DeadView], graph: Graph) -> None:
        """Only an item that was the first unsettled of enough lost claims that ran alone, and had begun, dies."""
        for letter in letters:
            if letter.reason != "worker_lost":
                continue
            item = (letter.job, letter.generation, graph.position(letter.stage), letter.seq)
            begun = [h for h in self.holdings.values() if h.claim.alone and h.step and not h.ended]
            alone = [h for h in begun if h.unsettled[:1] == [item]]
            if len(alone) < CRASHES_MAX:
                self.found("L1", f"died of lost workers after {len(alone)} losses of its own", item)

    def check_sink(self, sink: SimulatedSink, recorded: Mapping[str, int]) -> None:
        """No effect twice, none of a done item missing, no fence that goes back.

        `recorded` counts by key what was applied in the account's own transactions: there an item that did not end done
        has left nothing.
        """
        for key, fences in sink.appended.items():
            if len(fences) != 1:
                self.found("X1", f"was applied {len(fences)} times", key)
        for key, fences in sink.written.items():
            if fences != sorted(fences):
                self.found("F1", f"accepted fences {fences}", key)
        done = {self._effect_key(item) for item, end in self.ends.items() if end == "done"}
        for key in sorted(done - sink.appended.keys() - sink.written.keys() - recorded.keys()):
            self.found("X1", "is done and left no effect", key)
        for key, times in recorded.items():
            if times != 1 or key not in done:
                self.found("X1", f"was recorded {times} times, done: {key in done}", key)

    def _effect_key(self, item: Item) -> str:
        claim = self.holdings[self._holder[item]].claim
        return f"{claim.job}/{claim.stage}/{item[3]}"
