"""Random interleavings with crashes: counts are exact, the end comes once and after the seal, progress never goes back.

Every twin lacks one guard, and some seed must find it out; else neither the guard nor the seeds are worth anything.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from smap_account_seeds import FAULTS, Kinds, run_seed
from smap_accounts import InlineDatabase, MemoryLedger

from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.finisher import Finisher
from headrace_smap.count.reconciliation import rules
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.truth import Truth
from headrace_smap.values import CRAWLING, PROCESSING, PostEnd, Standing

TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
SEEDS = 400 * TIMES
TWIN_SEEDS = 400


@pytest.fixture(scope="module")
def database() -> Iterator[InlineDatabase]:
    database = InlineDatabase()
    yield database
    database.connection.close()


def test_no_seed_finds_a_wrong_count_or_a_second_end(database: InlineDatabase) -> None:
    fired: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = run_seed(seed, database)
        assert world.problems == [], f"seed {seed}"
        fired += world.fired
    assert min(fired[kind] for kind in (*FAULTS, "scribble")) > 20


@pytest.mark.parametrize(
    "seed",
    [
        303,  # restored from a truth that was read before the finish, and then never again
    ],
)
def test_a_seed_that_once_found_something_finds_nothing(seed: int, database: InlineDatabase) -> None:
    assert run_seed(seed, database).problems == []


def test_the_same_seed_is_the_same_world(database: InlineDatabase) -> None:
    first, second = run_seed(7, database), run_seed(7, database)
    assert (first.fired, first.clock.at) == (second.fired, second.clock.at)


class CountsTwice(MemoryLedger):
    def _count(self, project: str, ends: Sequence[PostEnd]) -> tuple[int, int, int]:
        super()._count(project, ends)
        return len(ends), sum(not end.ok for end in ends), 0


class CrossesWhileCrawling(MemoryLedger):
    """As an analytics worker does that does not look at the status, and with a total that is not one ahead."""

    async def expect(self, project: str, found: int) -> Standing | None:
        seen = await super().expect(project, found)
        if seen is not None and seen.status == CRAWLING:
            self.hashes[project]["total"] = found
        return seen

    def _crossed(self, project: str, **more: Any) -> Standing | None:
        shown = self.hashes[project]
        if shown["status"] == CRAWLING and 0 < shown["total"] <= shown["done"]:
            shown["status"] = PROCESSING
        return super()._crossed(project, **more)


class LowersOnRestore(MemoryLedger):
    """Puts the truth in the place of what is shown."""

    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        self.items[project], self.failed[project] = set(), set()
        self.hashes.pop(project, None)
        return await super().restore(project, known, ends)


class LedgerFirst(Accountant):
    async def settle(self, ends: Sequence[ItemEnd], steps: Any = ()) -> None:
        for end in ends:
            await self._count(end.project, [PostEnd(end.item, end.ok)])
        await super().settle(ends, steps)


class NoRebuild(Accountant):
    """Leaves an absent project to others, and so does its reconciler."""

    async def _rebuild(self, project: str) -> bool:
        return False

    async def restore(self, project: str, known: Standing) -> Standing:
        return known


class SealsTheLedgerOnly(Accountant):
    async def seal(self, project: str, total: int | None = None) -> Standing | None:
        return await self._shown(project, lambda: self._ledger.seal(project, total))


class MakesUpWhatItSaw(Finisher):
    """Announces what it sees instead of what the finish row says."""

    async def finish(self, project: str, seen: Standing, told: bool = False) -> Truth:
        truth = await super().finish(project, seen, told)
        await self.announce(truth)
        return truth

    async def announce(self, truth: Truth) -> None:
        if truth.finished_at is not None:
            from headrace_smap.envelope import job_completed

            await self._bus.publish([job_completed(truth.project, truth.final(), self._now())])
            await self.told(truth.project)


class AnnouncesAnyhow(Accountant):
    def __init__(self, parts: Any, now: Any) -> None:
        super().__init__(parts, now)
        self.finisher = MakesUpWhatItSaw(parts, now)


class NeverFinishes(Reconciler):
    """Trusts that whoever crossed the line lives long enough to say so."""

    async def _finish(self, view: rules.View, memory: rules.ReconcilerMemory) -> None:
        return


class NeverRestores(Reconciler):
    async def _restored(self, view: rules.View, memory: rules.ReconcilerMemory) -> rules.View:
        return view


TWINS = [
    Kinds(ledger=CountsTwice),
    Kinds(ledger=CrossesWhileCrawling),
    Kinds(ledger=LowersOnRestore),
    Kinds(accountant=LedgerFirst),
    Kinds(accountant=NoRebuild),
    Kinds(accountant=SealsTheLedgerOnly),
    Kinds(accountant=AnnouncesAnyhow),
    Kinds(reconciler=NeverFinishes),
    Kinds(reconciler=NeverRestores),
]


def name_of(kinds: Kinds) -> str:
    broken = {Accountant, Reconciler, MemoryLedger}
    return next(kind.__name__ for kind in (kinds.accountant, kinds.reconciler, kinds.ledger) if kind not in broken)


@pytest.mark.parametrize("kinds", TWINS, ids=name_of)
def test_a_world_without_one_guard_is_found_out(kinds: Kinds, database: InlineDatabase) -> None:
    assert any(run_seed(seed, database, kinds).problems for seed in range(TWIN_SEEDS))


def test_a_counter_that_does_not_follow_from_new_rows_is_found_out() -> None:
    text = InlineDatabase()._texts["truth_settle"].replace("count(*) FILTER (WHERE state IS NULL),", "count(*),")
    assert any(run_seed(seed, InlineDatabase({"truth_settle": text})).problems for seed in range(TWIN_SEEDS))
