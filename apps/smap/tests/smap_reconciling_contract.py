"""What the reconciler promises, whatever foreign services do to the hash. Brings: `account`.

`Foreign` does what the specification's own snippets do, with plain commands.
"""

from __future__ import annotations

from typing import Any, Protocol

from smap_accounts import Clock, InlineDatabase, MemoryBus, MemoryLedger, MemoryParts

from headrace.ports import Delivery, Event
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.completions import Completions
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.truth import Truth, look
from headrace_smap.envelope import JOB_COMPLETED, completed_id, read
from headrace_smap.settings import SmapSettings
from headrace_smap.values import CRAWLING, DONE, INITIALIZING, PROCESSING, PROCESSING_WAIT

P = "proj_abc"
Shown = tuple[str, int, int, int]


class Hash(Protocol):
    """The hash of a project, as everybody may write to it."""

    async def hset(self, project: str, **fields: Any) -> None: ...

    async def hincrby(self, project: str, field: str, by: int) -> int: ...

    async def hget(self, project: str, field: str) -> Any: ...

    async def flush(self) -> None: ...

    async def remove_items(self, project: str) -> None:
        """What stands beside the hash, and is nobody's business but ours."""


class MemoryHash:
    def __init__(self, ledger: MemoryLedger) -> None:
        self._ledger = ledger

    async def hset(self, project: str, **fields: Any) -> None:
        self._ledger.hashes.setdefault(project, {}).update(fields)

    async def hincrby(self, project: str, field: str, by: int) -> int:
        shown = self._ledger.hashes.setdefault(project, {})
        shown[field] = shown.get(field, 0) + by
        return int(shown[field])

    async def hget(self, project: str, field: str) -> Any:
        return self._ledger.hashes.get(project, {}).get(field)

    async def flush(self) -> None:
        self._ledger.flush()

    async def remove_items(self, project: str) -> None:
        self._ledger.items.pop(project, None)
        self._ledger.failed.pop(project, None)


class Foreign:
    """Services of somebody else."""

    def __init__(self, shared: Hash, bus: MemoryBus) -> None:
        self.hash, self._bus = shared, bus

    async def init_project_state(self) -> None:
        await self.hash.hset(P, status=INITIALIZING, total=0, done=0, errors=0)

    async def set_project_total(self, total: int) -> None:
        await self.hash.hset(P, total=total)
        await self.hash.hset(P, status=CRAWLING)

    async def crawled_everything(self, total: int | None = None) -> None:
        if total is not None:
            await self.hash.hset(P, total=total)
        await self.hash.hset(P, status=PROCESSING_WAIT)

    async def mark_item_done(self, is_error: bool = False, tells: bool = True) -> None:
        """Step 3 and §4.1; `tells` is False for one that dies before it can."""
        done = await self.hash.hincrby(P, "done", 1)
        if is_error:
            await self.hash.hincrby(P, "errors", 1)
        total, status = int(await self.hash.hget(P, "total") or 0), await self.hash.hget(P, "status")
        if total > 0 and done >= total and status not in (CRAWLING, DONE):
            await self.hash.hset(P, status=DONE)
            if tells:
                await self._bus.publish([Event("evt_foreign", JOB_COMPLETED, b'{"project_id": "proj_abc"}')])


class Account:
    """An accountant and a reconciler, with everything around them at hand."""

    def __init__(self, ledger: Any, shared: Hash, reconciler: type[Reconciler] = Reconciler, **settings: Any) -> None:
        self.bus, self.clock, self.database = MemoryBus(), Clock(), InlineDatabase()
        self.parts = MemoryParts(self.database, ledger, self.bus, SmapSettings(**settings))
        self.opened = self.parts.opened()
        self.accountant = Accountant(self.opened, self.clock)
        self.reconciler = reconciler(self.opened, self.accountant, self.clock)
        self.foreign = Foreign(shared, self.bus)
        self._heard = 0

    async def look_after(self, looks: int = 1, every_s: float = 1.0) -> None:
        """The reconciler looks so often; between two looks what is on the bus is heard."""
        for _ in range(looks):
            news = self.bus.published[self._heard :]
            self._heard = len(self.bus.published)
            deliveries = [Delivery("smap.completions", 1, 1, event) for event in news]
            await Completions(self.database, self.clock).handle(deliveries)
            self.clock.forward(every_s)
            await self.reconciler.tick()

    async def shown(self) -> Shown:
        seen = await self.parts.ledger.tally(P)
        assert seen is not None, "the project is not shown"
        return seen.status, seen.total, seen.done, seen.errors

    async def truth(self) -> Truth:
        return (await look(self.database, [P]))[0]

    async def settle(self, *items: str, ok: bool = True) -> None:
        await self.accountant.settle([ItemEnd(P, item, ok, body=None if ok else b"{}") for item in items])

    def told(self) -> list[str]:
        return [event.event_id for event in self.bus.published]

    def metric(self, name: str) -> float | None:
        return self.opened.registry.get_sample_value(f"headrace_smap_{name}")


class ReconcilerContract:
    async def test_a_foreign_collector_that_seals_last_is_noticed_at_the_next_look(self, account: Account) -> None:
        await account.foreign.init_project_state()
        await account.foreign.set_project_total(2)
        await account.settle("a")
        await account.settle("b", ok=False)
        await account.look_after(3)
        assert await account.shown() == (CRAWLING, 2, 2, 1)
        await account.foreign.crawled_everything()
        await account.look_after()
        assert await account.shown() == (DONE, 2, 2, 1)
        assert account.told() == [completed_id(P)]

    async def test_a_flushed_ledger_is_rebuilt_for_a_foreign_collector(self, account: Account) -> None:
        """What it wrote once and will never write again was mirrored by the settlements."""
        await account.foreign.set_project_total(3)
        await account.settle("a")
        await account.foreign.crawled_everything()
        await account.settle("b", ok=False)
        await account.foreign.hash.flush()
        await account.settle("c")
        assert await account.shown() == (DONE, 3, 3, 1)
        assert account.told() == [completed_id(P)]

    async def test_a_flushed_ledger_is_rebuilt_without_any_message(self, account: Account) -> None:
        await account.foreign.set_project_total(3)
        await account.settle("a", "b")
        await account.look_after()
        await account.foreign.hash.flush()
        await account.look_after()
        assert await account.shown() == (CRAWLING, 3, 2, 0)

    async def test_foreign_workers_are_counted_beside_ours_and_survive_a_flush(self, account: Account) -> None:
        await account.foreign.set_project_total(4)
        await account.settle("a")
        await account.foreign.mark_item_done(is_error=True)
        await account.foreign.mark_item_done()
        await account.look_after()
        assert (account.metric("foreign_done"), await account.shown()) == (2, (CRAWLING, 4, 3, 1))
        await account.foreign.hash.flush()
        await account.look_after()
        assert await account.shown() == (CRAWLING, 4, 3, 1)

    async def test_an_end_that_somebody_else_announced_is_not_announced_again(self, account: Account) -> None:
        await account.foreign.set_project_total(1)
        await account.foreign.crawled_everything()
        await account.foreign.mark_item_done()
        await account.look_after(10)
        assert account.told() == ["evt_foreign"]
        truth = await account.truth()
        assert (truth.finished_at is not None, truth.announced_at is not None) == (True, True)

    async def test_an_end_that_nobody_announced_is_announced_after_two_seconds(self, account: Account) -> None:
        await account.foreign.set_project_total(1)
        await account.foreign.crawled_everything()
        await account.foreign.mark_item_done(tells=False)
        await account.look_after(2)
        assert account.told() == []
        await account.look_after(10)
        assert account.told() == [completed_id(P)]
        assert read(account.bus.published[0].body).payload == {"project_id": P, "total": 1, "done": 1, "errors": 0}

    async def test_a_line_crossed_by_ours_beside_a_foreign_worker_is_told_by_one(self, account: Account) -> None:
        """The foreign worker has looked at the status before we crossed, and announces too."""
        await account.foreign.set_project_total(2)
        await account.foreign.crawled_everything()
        await account.foreign.hash.hincrby(P, "done", 1)
        await account.settle("a")
        await account.bus.publish([Event("evt_foreign", JOB_COMPLETED, b'{"project_id": "proj_abc"}')])
        await account.look_after(10)
        assert await account.shown() == (DONE, 2, 2, 0)
        assert account.told() == ["evt_foreign"]

    async def test_an_empty_project_of_a_foreign_collector_ends(self, account: Account) -> None:
        await account.foreign.init_project_state()
        await account.foreign.crawled_everything(0)
        await account.look_after()
        assert await account.shown() == (DONE, 0, 0, 0)
        assert account.told() == [completed_id(P)]

    async def test_nothing_ends_before_its_collector_says_so(self, account: Account) -> None:
        await account.foreign.init_project_state()
        await account.look_after(3)
        await account.foreign.set_project_total(1)
        await account.settle("a")
        await account.look_after(3)
        assert (await account.shown(), account.told()) == ((CRAWLING, 1, 1, 0), [])

    async def test_a_total_that_is_set_after_the_end_is_put_back(self, account: Account) -> None:
        await account.foreign.set_project_total(1)
        await account.foreign.crawled_everything()
        await account.settle("a")
        await account.look_after(2)
        await account.foreign.set_project_total(50)
        await account.look_after(2)
        assert (await account.shown(), account.metric("repaired_total")) == ((DONE, 1, 1, 0), 1)
        assert account.told() == [completed_id(P)]

    async def test_a_seal_of_ours_outweighs_a_foreign_total(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.settle("a")
        await account.accountant.seal(P, 2)
        await account.look_after()
        await account.foreign.set_project_total(50)
        await account.look_after()
        assert (await account.shown())[1:] == (2, 1, 0)
        await account.settle("b")
        assert await account.shown() == (DONE, 2, 2, 0)

    async def test_a_collector_may_change_its_mind_until_it_seals_for_good(self, account: Account) -> None:
        """Within one life of the server nothing is lost: a lower total and an earlier status are somebody's deed."""
        await account.foreign.set_project_total(11)
        await account.settle("a", "b")
        await account.look_after(2)
        await account.foreign.set_project_total(9)
        await account.look_after(4)
        assert await account.shown() == (CRAWLING, 9, 2, 0)
        await account.foreign.crawled_everything(8)
        await account.look_after(4)
        assert await account.shown() == (PROCESSING_WAIT, 8, 2, 0)
        await account.foreign.set_project_total(20)
        await account.look_after(4)
        assert await account.shown() == (CRAWLING, 20, 2, 0)
        await account.foreign.crawled_everything(2)
        await account.look_after()
        assert await account.shown() == (DONE, 2, 2, 0)

    async def test_posts_are_counted_when_a_foreign_project_appears(self, account: Account) -> None:
        await account.settle("a", "b")
        await account.settle("c", ok=False)
        await account.look_after(3)
        assert await account.parts.ledger.tally(P) is None
        await account.foreign.init_project_state()
        await account.foreign.set_project_total(3)
        await account.look_after(6)
        assert await account.shown() == (CRAWLING, 3, 3, 1)
        await account.foreign.crawled_everything()
        await account.look_after()
        assert await account.shown() == (DONE, 3, 3, 1)

    async def test_a_hash_that_is_begun_anew_gets_its_counts_back(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.settle("a", "b")
        await account.look_after()
        await account.foreign.init_project_state()
        await account.look_after()
        assert (await account.shown())[2:] == (2, 0)

    async def test_a_total_that_is_behind_our_own_crawl_is_raised(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.accountant.expect(P, 5)
        await account.foreign.hash.hset(P, total=1)
        account.database.connection.execute("UPDATE smap_project SET found = 5 WHERE project_id = ?", (P,))
        await account.look_after()
        assert await account.shown() == (CRAWLING, 6, 0, 0)

    async def test_a_finished_project_is_shown_for_a_week_and_then_answered_from_the_truth(
        self, account: Account
    ) -> None:
        await account.accountant.open(P)
        await account.settle("a")
        await account.settle("b", ok=False)
        await account.accountant.seal(P, 2)
        await account.foreign.hash.flush()
        await account.look_after()
        assert await account.shown() == (DONE, 2, 2, 1)
        await account.foreign.hash.flush()
        await account.look_after(3, every_s=8 * 24 * 3600)
        assert await account.parts.ledger.tally(P) is None
        await account.settle("late", "a")
        assert await account.parts.ledger.tally(P) is None
        progress = {"status": DONE, "total": 2, "processed": 2, "errors": 1, "percent": 100.0}
        assert await account.accountant.progress(P) == progress
        assert account.told() == [completed_id(P)]

    async def test_what_was_put_back_too_early_is_put_back_again(self, account: Account) -> None:
        """The end is written while the ledger is being rebuilt without it."""
        await account.accountant.open(P)
        await account.foreign.hash.flush()
        await account.look_after(2)
        counts = {"total": 0, "done": 0, "errors": 0, "event": completed_id(P), "announced": True}
        await account.database.rows("truth_finish", project=P, now=account.clock(), **counts)
        await account.look_after()
        assert await account.shown() == (DONE, 0, 0, 0)

    async def test_a_project_that_nobody_seals_raises_the_alarm_after_ten_minutes(self, account: Account) -> None:
        await account.foreign.set_project_total(2)
        await account.settle("a", "b")
        await account.look_after(9, every_s=60)
        assert account.metric("complete_but_not_sealed") == 0
        await account.look_after(3, every_s=60)
        assert account.metric("complete_but_not_sealed") == 1
        assert await account.shown() == (CRAWLING, 2, 2, 0)
        await account.accountant.seal(P)
        await account.look_after(2)
        assert (await account.shown(), account.metric("complete_but_not_sealed")) == ((DONE, 2, 2, 0), 0)

    async def test_a_project_that_still_moves_raises_no_alarm(self, account: Account) -> None:
        await account.foreign.set_project_total(1)
        for number in range(6):
            await account.settle(f"{number}")
            await account.foreign.set_project_total(number + 1)
            await account.look_after(5, every_s=60)
        assert account.metric("complete_but_not_sealed") == 0

    async def test_more_than_there_are_is_a_number_for_those_who_watch(self, account: Account) -> None:
        await account.foreign.set_project_total(1)
        await account.foreign.crawled_everything()
        await account.settle("a")
        await account.foreign.hash.hincrby(P, "done", 2)
        await account.look_after(2)
        assert (account.metric("beyond_total"), account.metric("foreign_done")) == (2, 2)
        assert (await account.accountant.progress(P) or {})["percent"] == 100.0

    async def test_a_deleted_project_does_not_come_back(self, account: Account) -> None:
        await account.accountant.open(P)
        await account.settle("a")
        await account.accountant.forget(P)
        assert not await account.accountant.open(P)
        assert await account.parts.ledger.tally(P) is None
        await account.foreign.set_project_total(5)
        await account.look_after(3)
        assert await account.parts.ledger.tally(P) is None
        assert await account.accountant.progress(P) is None
        await account.settle("a")
        assert await account.parts.ledger.tally(P) is None

    async def test_a_word_that_nobody_knows_is_left_alone(self, account: Account) -> None:
        await account.foreign.hash.hset(P, status="PAUSED", total=1, done=0, errors=0)
        await account.settle("a")
        await account.look_after(3)
        assert (await account.shown(), account.told()) == (("PAUSED", 1, 1, 0), [])
        await account.foreign.hash.hset(P, status=PROCESSING)
        await account.look_after()
        assert await account.shown() == (DONE, 1, 1, 0)
