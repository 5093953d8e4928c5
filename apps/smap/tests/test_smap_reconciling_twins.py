"""A reconciler without one of its guards breaks a promise: the contract finds it out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from smap_accounts import START, MemoryLedger
from smap_reconciling_contract import Account, MemoryHash, ReconcilerContract
from smap_reconciling_losses import in_memory, lives_through_a_lost_moment, lives_through_a_lost_moment_while_looking
from smap_reconciling_strangers import StrangersContract

from headrace.testing.twins import turns_red
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.reconciliation.rules import ON_ITS_WAY, ReconcilerMemory, View
from headrace_smap.count.truth import look
from headrace_smap.values import DONE, Standing


class SeesLossesEverywhere(Reconciler):
    async def _deal_with(self, view: View) -> View:
        return await super()._deal_with(replace(view, lost=True))


class SeesNoLoss(Reconciler):
    async def _deal_with(self, view: View) -> View:
        return await super()._deal_with(replace(view, lost=False))


class Impatient(Reconciler):
    """Does not wait for what somebody else may be about to say."""

    async def _finish(self, view: View, memory: ReconcilerMemory) -> None:
        truth = replace(view.truth, completed_seen_at=None)
        if memory.done_since is not None:
            memory.done_since = START
        await super()._finish(replace(view, truth=truth, now=view.now + ON_ITS_WAY), memory)


class NeverCrosses(Reconciler):
    async def _put_right(self, view: View) -> View:
        seen = view.seen
        if seen is not None and seen.reached and seen.status != DONE:
            return view
        return await super()._put_right(view)


class NeverRestores(Reconciler):
    async def _restored(self, view: View, memory: ReconcilerMemory) -> View:
        return view


class RestoresDeleted(Reconciler):
    """Puts back what was deleted."""

    async def _deal_with(self, view: View) -> View:
        seen = await self._accountant.restore(view.truth.project, view.truth.standing())
        return replace(view, seen=seen)


@pytest.mark.parametrize(
    ("twin", "promise"),
    [
        (SeesLossesEverywhere, ReconcilerContract.test_a_collector_may_change_its_mind_until_it_seals_for_good),
        (Impatient, ReconcilerContract.test_an_end_that_nobody_announced_is_announced_after_two_seconds),
        (Impatient, ReconcilerContract.test_a_line_crossed_by_ours_beside_a_foreign_worker_is_told_by_one),
        (Impatient, ReconcilerContract.test_an_end_that_somebody_else_announced_is_not_announced_again),
        (NeverCrosses, ReconcilerContract.test_a_foreign_collector_that_seals_last_is_noticed_at_the_next_look),
        (NeverCrosses, ReconcilerContract.test_an_empty_project_of_a_foreign_collector_ends),
        (NeverRestores, ReconcilerContract.test_a_flushed_ledger_is_rebuilt_without_any_message),
        (NeverRestores, ReconcilerContract.test_a_total_that_is_set_after_the_end_is_put_back),
        (NeverRestores, ReconcilerContract.test_a_seal_of_ours_outweighs_a_foreign_total),
        (NeverRestores, ReconcilerContract.test_posts_are_counted_when_a_foreign_project_appears),
        (NeverRestores, ReconcilerContract.test_a_hash_that_is_begun_anew_gets_its_counts_back),
        (NeverRestores, ReconcilerContract.test_a_total_that_is_behind_our_own_crawl_is_raised),
        (RestoresDeleted, ReconcilerContract.test_a_deleted_project_does_not_come_back),
    ],
)
async def test_without_a_guard_a_promise_is_broken(twin: type[Reconciler], promise: Any) -> None:
    await turns_red(promise, account=in_memory(twin))


class AsksOnce(Reconciler):
    """Takes it that a server that ran when a look began runs until its end."""

    async def tick(self) -> None:
        asked = self._ledger.era
        era = await asked()
        self._ledger = Remembering(self._ledger, era)  # type: ignore[assignment]
        await super().tick()
        self._ledger = self._ledger.ledger  # type: ignore[attr-defined]


class Remembering:
    def __init__(self, ledger: Any, era: str) -> None:
        self.ledger, self._era = ledger, era

    async def era(self) -> str:
        return self._era

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


async def test_who_asks_for_the_era_only_once_loses_what_it_saw() -> None:
    with pytest.raises(AssertionError):
        await lives_through_a_lost_moment_while_looking(AsksOnce)


async def test_without_another_era_a_lost_moment_stays_lost() -> None:
    with pytest.raises(AssertionError):
        await lives_through_a_lost_moment(in_memory(SeesNoLoss))


class MakesHashes(Accountant):
    """Puts a project back that the truth knows, however long it has been finished, and one that nobody opened."""

    async def _rebuild(self, project: str) -> bool:
        (truth,) = await look(self._database, [project])
        await self.restore(project, truth.standing())
        return True


class TakesHalfForWhole(MemoryLedger):
    """Does not say that fields are missing."""

    def _standing(self, project: str, **more: Any) -> Standing | None:
        seen = super()._standing(project, **more)
        return seen and replace(seen, whole=True)


async def test_a_hash_that_was_begun_anew_is_not_followed() -> None:
    ledger = TakesHalfForWhole()
    account = Account(ledger, MemoryHash(ledger))
    await turns_red(StrangersContract.test_a_total_that_is_written_after_a_flush_takes_nothing_away, account=account)


class OpensAnew(Accountant):
    """Begins a project again that was only lost."""

    async def open(self, project: str) -> bool:
        await self._database.rows("truth_open", project=project, now=self._now())
        return await self._ledger.open(project)


class TakesOursForForeign(Accountant):
    """Does not tell the ledger that items of ours are gone."""

    async def restore(self, project: str, known: Standing) -> Standing:
        return await super().restore(project, replace(known, items_lost=False))


@pytest.mark.parametrize(
    ("twin", "promise"),
    [
        (OpensAnew, StrangersContract.test_opening_a_project_again_after_a_flush_brings_it_back),
        (TakesOursForForeign, StrangersContract.test_items_that_somebody_removed_are_not_counted_twice),
    ],
)
async def test_an_accountant_without_a_guard_is_found_out(twin: type[Accountant], promise: Any) -> None:
    account = in_memory()
    account.accountant = twin(account.opened, account.clock)
    account.reconciler = Reconciler(account.parts.opened(), account.accountant, account.clock)
    await turns_red(promise, account=account)


@pytest.mark.parametrize(
    ("statement", "guard", "instead", "promise", "given"),
    [
        (
            "truth_finish",
            "crawled_at IS NULL ELSE",
            "true ELSE",
            StrangersContract.test_a_crawl_whose_mark_was_lost_does_not_end,
            {"written": DONE},
        ),
        (
            "truth_finish",
            ":done >= total",
            "true",
            StrangersContract.test_an_end_before_as_many_ended_as_we_sealed_is_none,
            {},
        ),
        (
            "truth_completed_seen",
            "announced_at IS NULL",
            "completed_seen_at IS NULL",
            StrangersContract.test_an_end_that_is_announced_once_too_early_and_once_in_time_is_enough,
            {},
        ),
        (
            "truth_mirror",
            "seen.counted < kept.done - kept.others AS fewer",
            "false AS fewer",
            StrangersContract.test_items_that_somebody_removed_are_not_counted_twice,
            {},
        ),
    ],
)
async def test_a_statement_without_a_guard_is_found_out(
    statement: str, guard: str, instead: str, promise: Any, given: dict[str, Any]
) -> None:
    account = in_memory()
    text = account.database._texts[statement]
    assert guard in text
    account.database._texts[statement] = text.replace(guard, instead)
    await turns_red(promise, account=account, **given)


@pytest.mark.parametrize(
    "promise",
    [
        ReconcilerContract.test_a_finished_project_is_shown_for_a_week_and_then_answered_from_the_truth,
        ReconcilerContract.test_posts_are_counted_when_a_foreign_project_appears,
    ],
)
async def test_a_hash_made_by_accident_is_found_out(promise: Any) -> None:
    account = in_memory()
    account.accountant = MakesHashes(account.opened, account.clock)
    await turns_red(promise, account=account)
