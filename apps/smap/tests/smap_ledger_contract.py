"""What every ledger of projects promises, whatever keeps it. Brings: `ledger`, and `handles` for several at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from headrace_smap.ledger.project_ledger import ProjectLedger
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    STATUSES,
    PostEnd,
    Standing,
)

P = "proj_abc"


def ends(*items: str, ok: bool = True) -> list[PostEnd]:
    return [PostEnd(item, ok) for item in items]


def there(standing: Standing | None) -> Standing:
    assert standing is not None
    return standing


def counts(standing: Standing | None) -> tuple[str, int, int, int]:
    """The four fields that every service sees."""
    shown = there(standing)
    return (shown.status, shown.total, shown.done, shown.errors)


class ProjectLedgerContract:
    @pytest.fixture
    async def opened(self, ledger: ProjectLedger) -> ProjectLedger:
        assert await ledger.open(P)
        return ledger

    @pytest.fixture
    async def handles(self, ledger: ProjectLedger) -> Sequence[ProjectLedger]:
        return [ledger]

    async def test_a_project_opens_once(self, opened: ProjectLedger) -> None:
        assert await opened.tally(P) == Standing(INITIALIZING)
        await opened.expect(P, 3)
        assert not await opened.open(P)
        assert counts(await opened.tally(P)) == (CRAWLING, 4, 0, 0)

    async def test_a_project_that_is_not_there_is_none_and_stays_so(self, ledger: ProjectLedger) -> None:
        assert await ledger.expect(P, 1) is None
        assert await ledger.seal(P, 1) is None
        assert await ledger.settle(P, ends("a")) is None
        assert await ledger.settle(P, []) is None
        assert await ledger.tally(P) is None
        assert await ledger.open(P)
        assert there(await ledger.settle(P, ends("a"))).new == 1

    async def test_while_crawling_the_total_is_one_ahead(self, opened: ProjectLedger) -> None:
        assert counts(await opened.expect(P, 0)) == (CRAWLING, 1, 0, 0)
        assert counts(await opened.expect(P, 200)) == (CRAWLING, 201, 0, 0)

    async def test_a_page_told_again_or_late_changes_nothing(self, opened: ProjectLedger) -> None:
        for found in (5, 5, 2):
            assert counts(await opened.expect(P, found)) == (CRAWLING, 6, 0, 0)

    async def test_it_is_known_how_far_our_crawl_is(self, opened: ProjectLedger) -> None:
        marks = [there(await opened.tally(P)).crawl]
        for after in (await opened.expect(P, 3), await opened.seal(P, 3), await opened.expect(P, 3)):
            marks.append(there(after).crawl)
        assert marks == ["", CRAWL_OPEN, CRAWL_SEALED, CRAWL_SEALED]

    async def test_how_far_our_crawl_was_is_restored(self, ledger: ProjectLedger) -> None:
        for known in (Standing(CRAWLING, 4, crawl=CRAWL_OPEN), Standing(PROCESSING, 3, crawl=CRAWL_SEALED)):
            assert await ledger.restore(P, known, []) == known
        late = await ledger.restore(P, Standing(CRAWLING, 9, crawl=CRAWL_OPEN), [])
        assert (counts(late), late.crawl) == ((PROCESSING, 3, 0, 0), CRAWL_SEALED)

    async def test_the_seal_closes_the_open_item(self, opened: ProjectLedger) -> None:
        await opened.expect(P, 3)
        assert counts(await opened.seal(P, 3)) == (PROCESSING_WAIT, 3, 0, 0)

    async def test_a_seal_without_a_total_takes_the_one_that_is_shown(self, opened: ProjectLedger) -> None:
        await opened.expect(P, 3)
        assert counts(await opened.seal(P, None)) == (PROCESSING_WAIT, 4, 0, 0)

    async def test_a_seal_is_never_below_what_is_counted(self, opened: ProjectLedger) -> None:
        await opened.settle(P, ends("a", "b", "c"))
        assert counts(await opened.seal(P, 2)) == (DONE, 3, 3, 0)

    async def test_a_sealed_total_may_rise_and_never_falls(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 5)
        totals = [there(await opened.seal(P, total)).total for total in (4, 7, None, 6)]
        assert totals == [5, 7, 7, 7]
        assert counts(await opened.expect(P, 6)) == (PROCESSING_WAIT, 7, 0, 0)
        assert counts(await opened.expect(P, 9)) == (PROCESSING_WAIT, 9, 0, 0)

    async def test_what_is_done_keeps_its_total(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 1)
        await opened.settle(P, ends("a"))
        for late in (await opened.expect(P, 9), await opened.seal(P, 9), await opened.seal(P, None)):
            assert counts(late) == (DONE, 1, 1, 0)
            assert not there(late).crossed

    async def test_an_item_counts_once(self, opened: ProjectLedger) -> None:
        first = there(await opened.settle(P, ends("a", "b", "a")))
        again = there(await opened.settle(P, ends("b", "c")))
        assert (first.new, again.new) == (2, 1)
        assert again == Standing(INITIALIZING, done=3, counted=3, new=1)

    async def test_a_failed_item_is_an_error_and_done(self, opened: ProjectLedger) -> None:
        after = await opened.settle(P, [*ends("a"), *ends("b", "c", ok=False)])
        assert after == Standing(INITIALIZING, done=3, errors=2, counted=3, failed=2, new=3)
        assert await opened.settle(P, ends("b", ok=False)) == Standing(
            INITIALIZING, done=3, errors=2, counted=3, failed=2
        )

    async def test_an_item_that_went_well_at_last_is_no_error_any_more(self, opened: ProjectLedger) -> None:
        await opened.settle(P, [*ends("a"), *ends("b", "c", ok=False)])
        assert there(await opened.seal(P, 3)).crossed
        for _ in range(2):
            after = await opened.settle(P, ends("b"))
            assert after == Standing(DONE, 3, 3, 1, 3, 1, ours=True, crawl=CRAWL_SEALED)

    async def test_a_failure_never_takes_a_success_back(self, opened: ProjectLedger) -> None:
        await opened.settle(P, ends("a"))
        await opened.settle(P, ends("a", ok=False))
        assert counts(await opened.settle(P, [PostEnd("b", False), PostEnd("b"), PostEnd("b", False)])) == (
            INITIALIZING,
            0,
            2,
            0,
        )

    async def test_the_last_item_crosses_the_line(self, opened: ProjectLedger) -> None:
        await opened.expect(P, 3)
        assert counts(await opened.settle(P, ends("a"))) == (CRAWLING, 4, 1, 0)
        assert counts(await opened.seal(P, 3)) == (PROCESSING_WAIT, 3, 1, 0)
        assert counts(await opened.settle(P, ends("a", "b"))) == (PROCESSING, 3, 2, 0)
        last = there(await opened.settle(P, ends("b", "c", ok=False)))
        assert last == Standing(DONE, 3, 3, 1, 3, 1, new=1, crossed=True, ours=True, crawl=CRAWL_SEALED)

    @pytest.mark.parametrize("found", [None, 1])
    async def test_nothing_finishes_before_the_seal(self, opened: ProjectLedger, found: int | None) -> None:
        if found is not None:
            await opened.expect(P, found)
        for after in (await opened.settle(P, ends("a", "b", "c")), await opened.settle(P, [])):
            assert there(after).status == (INITIALIZING if found is None else CRAWLING)
            assert not there(after).crossed

    async def test_the_seal_crosses_the_line_when_everything_has_ended(self, opened: ProjectLedger) -> None:
        await opened.expect(P, 2)
        await opened.settle(P, ends("a", "b"))
        sealed = there(await opened.seal(P, 2))
        assert (counts(sealed), sealed.crossed) == ((DONE, 2, 2, 0), True)

    async def test_an_empty_project_finishes_at_its_seal(self, opened: ProjectLedger) -> None:
        assert await opened.seal(P, 0) == Standing(DONE, crossed=True, ours=True, crawl=CRAWL_SEALED)

    async def test_a_repeat_crosses_nothing(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 1)
        settled = [there(await opened.settle(P, ends("a"))).crossed for _ in range(3)]
        later = [there(await opened.seal(P, 1)).crossed, there(await opened.settle(P, [])).crossed]
        assert (settled, later) == ([True, False, False], [False, False])
        assert there(await opened.tally(P)).ours

    async def test_no_ends_only_look_at_the_line(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 2)
        assert counts(await opened.settle(P, [])) == (PROCESSING_WAIT, 2, 0, 0)

    async def test_a_sealed_project_counts_no_more_than_its_total(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 2)
        after = there(await opened.settle(P, ends("a", "b", "c", "c")))
        assert after == Standing(DONE, 2, 2, 0, 2, new=2, surplus=1, crossed=True, ours=True, crawl=CRAWL_SEALED)
        late = there(await opened.settle(P, ends("d", "a")))
        assert late == Standing(DONE, 2, 2, 0, 2, surplus=1, ours=True, crawl=CRAWL_SEALED)

    async def test_repeats_take_no_room_from_new_items(self, opened: ProjectLedger) -> None:
        await opened.settle(P, ends("a", "b"))
        await opened.seal(P, 4)
        after = there(await opened.settle(P, [*ends("a", "b", "c", "c"), *ends("c", "d", ok=False)]))
        assert after == Standing(DONE, 4, 4, 1, 4, 1, new=2, crossed=True, ours=True, crawl=CRAWL_SEALED)

    async def test_more_items_than_one_call_takes_are_all_counted(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 4_500)
        many = [PostEnd(f"raw/{number}.json", number % 3 > 0) for number in range(4_501)]
        after = there(await opened.settle(P, many))
        assert (after.new, after.surplus, after.crossed) == (4_500, 1, True)
        assert (after.status, after.total, after.done) == (DONE, 4_500, 4_500)

    async def test_projects_do_not_disturb_each_other(self, opened: ProjectLedger) -> None:
        others = [f"{P}:items", f"{P}/2", "dự án số 7", "x" * 500]
        for number, project in enumerate(others):
            assert await opened.open(project)
            await opened.seal(project, number + 2)
            await opened.settle(project, ends("a"))
        found = await opened.tallies([*others, "nobody", P])
        assert [None if each is None else each.total for each in found] == [2, 3, 4, 5, None, 0]
        assert [None if each is None else each.done for each in found] == [1, 1, 1, 1, None, 0]

    async def test_a_forgotten_project_is_gone_and_may_begin_again(self, opened: ProjectLedger) -> None:
        await opened.settle(P, [*ends("a"), *ends("b", ok=False)])
        await opened.seal(P, 2)
        for _ in range(2):
            await opened.forget(P)
            assert await opened.tally(P) is None
            assert await opened.settle(P, ends("c")) is None
        assert await opened.open(P)
        assert await opened.settle(P, ends("a")) == Standing(INITIALIZING, done=1, counted=1, new=1)

    async def test_an_absent_project_is_restored_as_it_was(self, ledger: ProjectLedger) -> None:
        known = Standing(CRAWLING, total=8)
        assert counts(await ledger.restore(P, known, [])) == (CRAWLING, 8, 0, 0)
        for _ in range(2):
            after = await ledger.restore(P, known, [*ends("a"), *ends("b", ok=False)])
            assert counts(after) == (CRAWLING, 8, 2, 1)
        assert (after.counted, after.failed, after.new) == (2, 1, 0)

    async def test_an_absent_project_is_restored_in_each_of_its_states(self, ledger: ProjectLedger) -> None:
        for status in STATUSES:
            total = 0 if status == INITIALIZING else 3
            after = await ledger.restore(f"in {status}", Standing(status, total, ours=status == DONE), ends("a"))
            assert (counts(after), after.ours) == ((status, total, 1, 0), status == DONE)
            assert not after.crossed

    async def test_restoring_lifts_status_and_total(self, opened: ProjectLedger) -> None:
        for known, shown in (
            (Standing(CRAWLING, 4), (CRAWLING, 4, 0, 0)),
            (Standing(CRAWLING, 6), (CRAWLING, 6, 0, 0)),
            (Standing(PROCESSING_WAIT, 5), (PROCESSING_WAIT, 5, 0, 0)),
            (Standing(PROCESSING_WAIT, 7), (PROCESSING_WAIT, 7, 0, 0)),
            (Standing(PROCESSING, 7), (PROCESSING, 7, 0, 0)),
            (Standing(DONE, 7), (DONE, 7, 0, 0)),
        ):
            assert counts(await opened.restore(P, known, [])) == shown

    async def test_restoring_from_a_truth_that_is_behind_changes_nothing(self, opened: ProjectLedger) -> None:
        await opened.expect(P, 3)
        assert counts(await opened.restore(P, Standing(INITIALIZING), [])) == (CRAWLING, 4, 0, 0)
        assert counts(await opened.restore(P, Standing(CRAWLING, 2), [])) == (CRAWLING, 4, 0, 0)
        await opened.settle(P, ends("a"))
        await opened.seal(P, 3)
        await opened.settle(P, ends("b", ok=False))
        for known in (Standing(CRAWLING, 4), Standing(PROCESSING_WAIT, 2), Standing(PROCESSING, 3)):
            assert counts(await opened.restore(P, known, ends("a"))) == (PROCESSING, 3, 2, 1)

    async def test_restored_items_respect_a_sealed_total(self, opened: ProjectLedger) -> None:
        await opened.seal(P, 2)
        after = await opened.restore(P, Standing(PROCESSING_WAIT, 2), ends("a", "b", "c"))
        assert (after.total, after.done, after.new, after.surplus, after.crossed) == (2, 2, 2, 1, False)
        assert [there(await opened.settle(P, [])).crossed for _ in range(2)] == [True, False]

    async def test_a_lifted_error_is_restored(self, opened: ProjectLedger) -> None:
        await opened.settle(P, ends("a", "b", ok=False))
        await opened.seal(P, 2)
        assert counts(await opened.restore(P, Standing(DONE, 2), ends("a"))) == (DONE, 2, 2, 1)

    async def test_a_restored_finish_is_not_crossed_again(self, ledger: ProjectLedger) -> None:
        await ledger.restore(P, Standing(DONE, 1, ours=True, crawl=CRAWL_SEALED), ends("a"))
        for after in (await ledger.settle(P, ends("a")), await ledger.seal(P, 1)):
            assert after == Standing(DONE, 1, 1, 0, 1, ours=True, crawl=CRAWL_SEALED)

    @pytest.mark.parametrize("seed", range(3))
    async def test_many_hands_finish_a_project_once(
        self, opened: ProjectLedger, handles: Sequence[ProjectLedger], seed: int
    ) -> None:
        items = [f"raw/{number}.json" for number in range(60)]
        crossings: list[bool] = []

        async def hand(ledger: ProjectLedger, own: Random) -> None:
            for _ in range(10):
                chosen = own.sample(items, 12)
                after = await ledger.settle(P, [PostEnd(item, own.random() < 0.8) for item in chosen])
                crossings.append(there(after).crossed)

        async def collector(ledger: ProjectLedger) -> None:
            for found in (20, 40, 60):
                await ledger.expect(P, found)
            crossings.append(there(await ledger.seal(P, 60)).crossed)

        async def reconciler(ledger: ProjectLedger) -> None:
            for _ in range(3):
                await ledger.restore(P, Standing(CRAWLING, 1), ends(*items[::7]))

        hands = [hand(handles[number % len(handles)], Random(seed * 100 + number)) for number in range(5)]
        hands += [collector(handles[0]), reconciler(handles[-1])]
        Random(seed).shuffle(hands)
        await asyncio.gather(*hands)
        crossings.append(there(await opened.settle(P, ends(*items))).crossed)
        assert sum(crossings) == 1
        assert counts(await opened.tally(P)) == (DONE, 60, 60, 0)
