"""A process may die between any two writes: whoever comes after it ends where it would have ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from smap_accounts import Clock, InlineDatabase, MemoryLedger, MemoryParts

from headrace.errors import Unreachable
from headrace.ports import Delivery, Event
from headrace_smap.count.accountant import Accountant, ItemEnd
from headrace_smap.count.completions import Completions
from headrace_smap.count.finisher import Finisher
from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.count.truth import look
from headrace_smap.envelope import JOB_COMPLETED, completed_id
from headrace_smap.values import DONE, PROCESSING_WAIT, SEALED, PostEnd, Standing

P = "proj_abc"
POINTS_MAX = 200
Deed = Callable[[Accountant], Awaitable[Any]]


class Killed(BaseException):
    """The process is gone."""


@dataclass
class Breaking:
    """Breaks the passage at one point, counted over all calls."""

    at: int
    how: type[BaseException] = Killed
    watched: MemoryParts | None = None
    passed: int = 0
    names: list[str] = field(default_factory=list)

    async def __call__(self, name: str) -> None:
        self.names.append(name)
        if self.watched is not None:
            (written,) = self.watched.database.one("SELECT count(*) FROM smap_item")
            assert len(self.watched.ledger.items[P]) <= written, "the ledger runs ahead of the truth"
        self.passed += 1
        if self.passed == self.at:
            raise self.how(f"at {name}")


def ends(*names: str, ok: bool = True) -> list[ItemEnd]:
    return [ItemEnd(P, name, ok, "" if ok else "blob_missing", None if ok else b"{}") for name in names]


async def found(parts: MemoryParts, count: int) -> None:
    parts.database.connection.execute("UPDATE smap_project SET found = ? WHERE project_id = ?", (count, P))


def deeds(parts: MemoryParts) -> list[Deed]:
    """The life of a project: two pages of posts, one of which fails, and the seal in between."""

    async def expect(accountant: Accountant, count: int) -> None:
        await found(parts, count)
        await accountant.expect(P, count)

    return [
        lambda accountant: accountant.open(P),
        lambda accountant: expect(accountant, 2),
        lambda accountant: accountant.settle(ends("a")),
        lambda accountant: expect(accountant, 4),
        lambda accountant: accountant.settle([*ends("b"), *ends("c", ok=False)]),
        lambda accountant: accountant.seal(P, 4),
        lambda accountant: accountant.settle(ends("d")),
    ]


async def live(parts: MemoryParts, clock: Clock, breaking: Breaking, make: type[Accountant] = Accountant) -> None:
    """Do the deeds one after the other; what was cut short is done again by another, as a message comes again."""
    accountant = make(parts.opened(breaking), clock)
    for deed in deeds(parts):
        for _ in range(3):
            try:
                await deed(accountant)
                break
            except Killed:
                accountant = make(parts.opened(breaking), clock)
            except Unreachable:
                continue


async def reconcile(parts: MemoryParts, clock: Clock, looks: int = 8, make: type[Accountant] = Accountant) -> None:
    opened = parts.opened()
    reconciler = Reconciler(opened, make(opened, clock), clock)
    for _ in range(looks):
        await reconciler.tick()
        clock.forward(1)


async def check(parts: MemoryParts, errors: int = 1) -> None:
    """The project is done with exact counts, and one announcement tells so, however often."""
    shown = parts.ledger.hashes[P]
    assert shown == {"status": DONE, "total": 4, "done": 4, "errors": errors}
    (truth,) = await look(parts.database, [P])
    assert (truth.settled, truth.failed) == (4, errors)
    assert truth.final() == Standing(DONE, 4, 4, errors)
    assert truth.announced_at is not None
    told = [event for event in parts.bus.published if event.topic == JOB_COMPLETED]
    assert {event.event_id for event in told} == {completed_id(P)}
    assert len({event.body for event in told}) == 1


async def points(how: type[BaseException], make: type[Accountant] = Accountant) -> int:
    """Live through every point at which it can break; the number of them."""
    for at in range(1, POINTS_MAX):
        parts, clock = MemoryParts(), Clock()
        breaking = Breaking(at, how, parts)
        await live(parts, clock, breaking, make)
        if breaking.passed < at:
            return at - 1
        await reconcile(parts, clock, make=make)
        await check(parts)
    raise AssertionError("there are more points than expected")


@pytest.mark.parametrize("how", [Killed, Unreachable])
async def test_whatever_breaks_where_the_count_is_exact_and_told_under_one_id(how: type[BaseException]) -> None:
    assert await points(how) > 30


async def test_a_seal_that_nobody_repeats_is_repeated_by_the_reconciler() -> None:
    """The collector dies for good after its seal was written."""
    for at in range(1, POINTS_MAX):
        parts, clock = MemoryParts(), Clock()
        whole = Accountant(parts.opened(), clock)
        await whole.open(P)
        await found(parts, 4)
        await whole.expect(P, 4)
        await whole.settle([*ends("a", "b", "d"), *ends("c", ok=False)])
        breaking = Breaking(at)
        try:
            await Accountant(parts.opened(breaking), clock).seal(P, 4)
        except Killed:
            if breaking.names == ["before transact"]:
                continue
        await reconcile(parts, clock)
        await check(parts)
        if breaking.passed < at:
            return


async def test_a_last_settlement_that_nobody_repeats_is_counted_by_the_reconciler() -> None:
    """The message was acknowledged by somebody's mistake: what the truth has is counted all the same."""
    for at in range(2, POINTS_MAX):
        parts, clock = MemoryParts(), Clock()
        whole = Accountant(parts.opened(), clock)
        await whole.open(P)
        await whole.settle([*ends("a", "b"), *ends("c", ok=False)])
        await whole.seal(P, 4)
        breaking = Breaking(at)
        try:
            await Accountant(parts.opened(breaking), clock).settle(ends("d"))
        except Killed:
            await reconcile(parts, clock)
        await check(parts)
        if breaking.passed < at:
            return


async def test_a_flushed_ledger_is_rebuilt_by_whoever_comes_first() -> None:
    """Between any two deeds everything in the ledger disappears; no reconciler is needed."""
    for gone_after in range(len(deeds(MemoryParts()))):
        parts, clock = MemoryParts(), Clock()
        accountant = Accountant(parts.opened(), clock)
        for number, deed in enumerate(deeds(parts)):
            await deed(accountant)
            if number == gone_after:
                parts.ledger.flush()
        if gone_after == number:
            await reconcile(parts, clock)
        await check(parts)


async def test_a_ledger_that_lost_a_moment_gets_it_back() -> None:
    """After every deed the ledger falls back to the moment before any earlier one."""
    count = len(deeds(MemoryParts()))
    for lost_after in range(count):
        for back_to in range(lost_after + 1):
            parts, clock, pictures = MemoryParts(), Clock(), []
            opened = parts.opened()
            accountant = Accountant(opened, clock)
            reconciler = Reconciler(opened, accountant, clock)
            for number, deed in enumerate(deeds(parts)):
                pictures.append(parts.ledger.picture())
                await deed(accountant)
                if number == lost_after:
                    parts.ledger.lose(pictures[back_to])
                await reconciler.tick()
            await reconcile(parts, clock)
            await check(parts)


async def test_the_end_of_a_project_is_the_same_however_often_it_is_told() -> None:
    """A retry after the end changes the counts, and not what was announced."""
    parts, clock = MemoryParts(), Clock()
    accountant = Accountant(parts.opened(), clock)
    for deed in deeds(parts):
        await deed(accountant)
    parts.database.connection.execute("UPDATE smap_project SET announced_at = NULL")
    await accountant.settle(ends("c"))
    clock.forward(5)
    await reconcile(parts, clock)
    assert len(parts.bus.published) == 2
    assert len({event.body for event in parts.bus.published}) == 1


# Twins: each lacks one guard, and the points above find it out.


class LedgerFirst(Accountant):
    """Counts what is not written down yet."""

    async def settle(self, ends: Sequence[ItemEnd], steps: Any = ()) -> None:
        for end in ends:
            await self._count(end.project, [PostEnd(end.item, end.ok)])
        await super().settle(ends, steps)


class SealsTheLedgerOnly(Accountant):
    """What is sealed is written nowhere."""

    async def seal(self, project: str, total: int | None = None) -> Standing | None:
        return await self._shown(project, lambda: self._ledger.seal(project, total))


class TellsFirst(Accountant):
    """Writes down that it was told before it is."""

    def __init__(self, opened: Any, now: Clock) -> None:
        super().__init__(opened, now)
        self.finisher = TellingFinisher(opened, now)


class TellingFinisher(Finisher):
    async def announce(self, truth: Any) -> None:
        await self.told(truth.project)
        await super().announce(truth)


@pytest.mark.parametrize("twin", [TellsFirst, LedgerFirst])
async def test_an_accountant_in_another_order_is_found_out(twin: type[Accountant]) -> None:
    with pytest.raises(AssertionError):
        await points(Killed, twin)


async def test_a_seal_without_a_row_is_found_out() -> None:
    parts, clock = MemoryParts(), Clock()
    accountant = SealsTheLedgerOnly(parts.opened(), clock)
    for deed in deeds(parts)[:-1]:
        await deed(accountant)
    assert parts.ledger.hashes[P]["status"] in SEALED
    parts.ledger.flush()
    parts.database.connection.execute("UPDATE smap_project SET status = 'CRAWLING', rank = 1, total = 5")
    await deeds(parts)[-1](accountant)
    await reconcile(parts, clock, make=SealsTheLedgerOnly)
    with pytest.raises(AssertionError):
        await check(parts)


@pytest.mark.parametrize(
    "counted",
    [
        "count(*)",  # every row that was sent
        "count(*) FILTER (WHERE state IS NULL OR state = 'failed')",  # those that changed, new or not
    ],
)
async def test_a_counter_that_does_not_follow_from_new_rows_is_found_out(counted: str) -> None:
    text = InlineDatabase()._texts["truth_settle"].replace("count(*) FILTER (WHERE state IS NULL),", f"{counted},")
    parts, clock = MemoryParts(database=InlineDatabase({"truth_settle": text})), Clock()
    accountant = Accountant(parts.opened(), clock)
    for deed in deeds(parts):
        await deed(accountant)
        await deed(accountant)
    await accountant.settle(ends("c"))
    with pytest.raises(AssertionError):
        await check(parts, errors=0)


@pytest.mark.parametrize("guard", [" AND told IS NULL", " AND excluded.reason IS NULL"])
async def test_a_cancellation_that_lifts_a_failure_is_found_out(guard: str) -> None:
    async def failed_and_rows(database: InlineDatabase) -> tuple[int, int]:
        accountant = Accountant(MemoryParts(database=database).opened(), Clock())
        await accountant.settle([ItemEnd("p", "a", False, "blob_missing", b"{}")])
        await accountant.settle([ItemEnd("p", "a", True, "cancelled")])
        (failed,) = database.one("SELECT failed FROM smap_project")
        (rows,) = database.one("SELECT count(*) FROM smap_item WHERE state = 'failed'")
        return failed, rows

    text = InlineDatabase()._texts["truth_settle"]
    assert text.count(guard) == 1
    assert await failed_and_rows(InlineDatabase()) == (1, 1)
    assert await failed_and_rows(InlineDatabase({"truth_settle": text.replace(guard, "")})) != (1, 1)


class BlindLedger(MemoryLedger):
    """Adds as many as it is told of."""

    def _count(self, project: str, ends: Sequence[PostEnd]) -> tuple[int, int, int]:
        super()._count(project, ends)
        return len(ends), sum(not end.ok for end in ends), 0


async def test_an_increment_that_does_not_follow_from_a_set_is_found_out() -> None:
    parts, clock = MemoryParts(ledger=BlindLedger()), Clock()
    breaking = Breaking(20)
    await live(parts, clock, breaking)
    for deed in deeds(parts):
        await deed(Accountant(parts.opened(), clock))
    with pytest.raises(AssertionError):
        await check(parts)


async def test_the_seal_is_in_the_truth_before_anybody_can_see_it() -> None:
    """Whoever sees a sealed project could finish it: then the total must survive."""
    for at in range(1, POINTS_MAX):
        parts, clock, breaking = MemoryParts(), Clock(), Breaking(at)
        whole = Accountant(parts.opened(), clock)
        await whole.open(P)
        try:
            await Accountant(parts.opened(breaking), clock).seal(P, 4)
        except Killed:
            (truth,) = await look(parts.database, [P])
            assert truth.sealed_at is not None or parts.ledger.hashes[P]["status"] != PROCESSING_WAIT
        else:
            return


async def test_what_is_announced_by_others_is_heard() -> None:
    database = InlineDatabase()
    completions = Completions(database, Clock())
    bodies = [b'{"project_id": "flat"}', b'{"event_id": "e", "payload": {"project_id": "wrapped"}}', b"not json"]
    events = [Event("evt_001", JOB_COMPLETED, body) for body in bodies]
    await completions.handle([Delivery("smap.completions", 1, 1, event) for event in events])
    rows = database.connection.execute("SELECT project_id FROM smap_project WHERE completed_seen_at IS NOT NULL")
    assert sorted(rows.fetchall()) == [("flat",), ("wrapped",)]
