"""The contract of an application's tables: one unit of work is one commit, on every store.

Statements here are written so that every dialect takes them as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from headrace.core.catalogue import Catalogue
from headrace.core.errors import CallerError, Conflict, NotFound, SchemaMismatch, TooLarge, Unknown, Unreachable
from headrace.core.events import Event
from headrace.core.table_statements import Row, Step, TableMigration, TablePart, TableStatement
from headrace.core.units import UNIT_RUNS_MAX, Unit, UnitDone
from headrace.ports.parts import Parts
from headrace.runtime.engine import Engine
from headrace.runtime.flow import Flow
from headrace.runtime.seams import Seams

STATEMENTS = {
    "add": "INSERT INTO shelf (article, amount) VALUES (:article, :amount)",
    "take": "UPDATE shelf SET amount = amount - 1, version = version + 1 WHERE article = :article RETURNING amount",
    "set": "UPDATE shelf SET amount = :amount, version = version + 1 WHERE article = :article AND version = :version",
    "amount": "SELECT amount, version FROM shelf WHERE article = :article",
    "unchanged": "SELECT 1 FROM shelf WHERE article = :article AND version = :version",
    "articles": "SELECT article FROM shelf ORDER BY article",
    "keep": "INSERT INTO kept (seen, day, tags, ok, raw) VALUES (:seen, :day, :tags, :ok, :raw)",
    "kept": 'SELECT seen AS "a [time]", day AS "b [date]", tags AS "c [json]", ok AS "d [bool]", raw FROM kept',
    "commit": "COMMIT",
    "missing": "INSERT INTO nowhere (article) VALUES (:article)",
}
ACCOUNT = {"sqlite": "DELETE FROM headrace_job", "postgres": "DELETE FROM headrace.job"}
SHELF = TableMigration(
    1,
    "shelf",
    (
        TablePart(
            "",
            "CREATE TABLE shelf (article varchar(20) PRIMARY KEY, amount integer, version integer NOT NULL DEFAULT 0)",
        ),
        TablePart("", "CREATE TABLE kept (seen timestamptz, day date, tags jsonb, ok boolean, raw bytea)"),
    ),
)
EVENT = Event("sold-1", "shop.sold", b"{}")

flow = Flow("orders")


@flow.stage
async def deliver(article: str) -> None: ...


def engine_on(store: Parts) -> Engine:
    texts = {**STATEMENTS, "account": ACCOUNT[store.tables.dialect]}
    catalogue = Catalogue({name: TableStatement.of(name, text) for name, text in texts.items()})
    return Engine(store, Seams(), catalogue)


def step(name: str, expect: int | None = None, **values: object) -> Step:
    return Step(TableStatement.of(name, STATEMENTS[name]), (values,), expect)


async def told(store: Parts) -> list[str]:
    return [event.event_id for event in (await store.outbox.claim("relay", 10, 30.0)).events]


async def remains(engine: Engine) -> tuple[list[str], int, list[str]]:
    """Everything that a unit can leave: articles, the number of jobs, events."""
    articles = [article for (article,) in await engine.rows("articles")]
    return articles, len(await engine.jobs()), await told(engine.store)


class LossyTables:
    """The tables of a store whose first answer to a unit is lost; what happens `meanwhile` is up to the test."""

    def __init__(self, store: Parts, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._tables, self._meanwhile, self._calls = store.tables, meanwhile, 0
        self.dialect = store.tables.dialect

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Row]:
        return await self._tables.read(statement, values)

    async def apply(self, unit: Unit) -> UnitDone:
        self._calls += 1
        if self._calls == 1:
            await self._tables.apply(unit)
            raise Unknown("the answer was lost")
        await self._meanwhile()
        return await self._tables.apply(unit)

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._tables.migrate(owner, migrations)


class LossyStore:
    """A store that loses the first answer to a unit."""

    def __init__(self, store: Parts, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._store, self.tables = store, LossyTables(store, meanwhile)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class UnitContract:
    """`ports.tables.Tables`: units."""

    async def test_rows_a_job_and_an_event_are_one_commit(self, engine: Engine) -> None:
        async with engine.transaction() as tx:
            added = tx.run("add", article="bolt", amount=2)
            taken = tx.run("take", article="bolt")
            opened = tx.submit(flow, "bolt")
            tx.publish(EVENT)
            job = opened.job
        assert (added.count, added.rows) == (1, [])
        assert taken.rows == [(1,)]
        assert (await engine.job(opened.job)).flow == "orders"
        assert opened.job == job
        assert await remains(engine) == (["bolt"], 1, ["sold-1"])

    async def test_a_block_that_raises_leaves_nothing(self, engine: Engine) -> None:
        with pytest.raises(ZeroDivisionError):
            async with engine.transaction() as tx:
                tx.run("add", article="bolt", amount=2)
                tx.submit(flow, "bolt")
                tx.publish(EVENT)
                raise ZeroDivisionError
        assert await remains(engine) == ([], 0, [])

    async def test_reads_see_what_was_before_the_unit(self, engine: Engine) -> None:
        async with engine.transaction() as tx:
            tx.run("add", article="bolt", amount=2)
            assert await tx.rows("articles") == []
            await engine.run("add", article="nut", amount=1)
            assert await tx.rows("articles") == [("nut",)]
            assert await tx.one("amount", article="nut") == (1, 0)
            seen_at_the_end = tx.run("articles")
        assert seen_at_the_end.rows == [("bolt",), ("nut",)], "a recorded read sees what was recorded before it"

    async def test_a_decision_that_was_overtaken_is_a_conflict_and_leaves_nothing(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=2)
        with pytest.raises(Conflict, match="set changed 0 rows where 1"):
            async with engine.transaction() as tx:
                found = await tx.one("amount", article="bolt")
                assert found is not None
                await engine.run("take", article="bolt")
                tx.run("add", article="nut", amount=1)
                tx.run("set", article="bolt", amount=found[0] - 1, version=found[1], expect=1)
                tx.submit(flow, "bolt")
                tx.publish(EVENT)
        assert await engine.one("amount", article="bolt") == (1, 1)
        assert await remains(engine) == (["bolt"], 0, [])

    async def test_a_batch_is_whole_or_not_at_all(self, engine: Engine) -> None:
        async with engine.transaction() as tx:
            ran = tx.run_many("add", [{"article": f"a{n}", "amount": n} for n in range(50)], expect=50)
        assert ran.count == 50
        with pytest.raises(CallerError):
            async with engine.transaction() as tx:
                tx.run_many("add", [{"article": article, "amount": 1} for article in ("x", "y", "a7", "z")])
        articles, *_ = await remains(engine)
        assert len(articles) == 50
        with pytest.raises(Conflict):
            async with engine.transaction() as tx:
                tx.run_many("take", [{"article": article} for article in ("a1", "a2", "gone")], expect=3)
        assert await engine.one("amount", article="a1") == (1, 0)

    async def test_a_job_that_is_refused_takes_everything_along(self, engine: Engine) -> None:
        first = await engine.submit(flow, "bolt", key="k")
        with pytest.raises(Conflict, match="another body"):
            async with engine.transaction() as tx:
                tx.run("add", article="bolt", amount=1)
                tx.submit(flow, "nut", key="k")
                tx.publish(EVENT)
        assert await remains(engine) == ([], 1, [])
        async with engine.transaction() as tx:
            opened = tx.submit(flow, "bolt", key="k")
            with pytest.raises(CallerError, match="when its block has ended"):
                _ = opened.job
        assert opened.job == first

    async def test_a_statement_that_is_refused_takes_everything_along(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=1)
        with pytest.raises(CallerError):
            async with engine.transaction() as tx:
                tx.submit(flow, "bolt")
                tx.publish(EVENT)
                tx.run("add", article="bolt", amount=1)
        assert await remains(engine) == (["bolt"], 0, [])

    async def test_a_unit_that_is_sent_again_is_applied_once(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=9)
        submission = engine.submission(flow, "bolt")
        unit = Unit("unit-1", (step("take", article="bolt"),), (submission,), (EVENT,))
        first = await engine.store.tables.apply(unit)
        again = await engine.store.tables.apply(unit)
        assert first.steps is not None
        assert first.steps[0].rows == ((8,),)
        assert again.steps is None, "its rows went with the first answer"
        assert [each.job for each in again.submitted] == [submission.job]
        assert await engine.one("amount", article="bolt") == (8, 1)
        assert await remains(engine) == (["bolt"], 1, ["sold-1"])

    async def test_a_conflict_leaves_no_mark(self, engine: Engine) -> None:
        unit = Unit("unit-1", (step("take", expect=1, article="bolt"),))
        with pytest.raises(Conflict):
            await engine.store.tables.apply(unit)
        await engine.run("add", article="bolt", amount=9)
        assert (await engine.store.tables.apply(unit)).steps is not None

    async def test_a_repeatable_unit_is_run_again_with_its_rows(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=9)
        steps = (step("set", article="bolt", amount=5, version=0), step("amount", article="bolt"))
        unit = Unit("unit-1", steps, repeatable=True)
        for _ in range(2):
            done = await engine.store.tables.apply(unit)
            assert done.steps is not None
            assert done.steps[1].rows == ((5, 1),)

    async def test_a_decision_that_was_right_stays_so_when_its_answer_is_lost(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=2)
        lossy: Any = LossyStore(engine.store, lambda: engine.run("take", article="bolt"))
        async with engine_on(lossy).transaction() as tx:
            tx.run("unchanged", article="bolt", version=0, expect=1)
            opened = tx.submit(flow, "bolt")
        assert (await engine.job(opened.job)).flow == "orders"

    async def test_a_unit_that_only_reads_may_expect_as_well(self, engine: Engine) -> None:
        await engine.run("add", article="bolt", amount=2)
        assert await engine.run("unchanged", article="bolt", version=0, expect=1) == [(1,)]
        with pytest.raises(Conflict):
            await engine.run("unchanged", article="bolt", version=1, expect=1)

    async def test_an_outage_after_a_lost_answer_leaves_the_end_unknown(self, engine: Engine) -> None:
        async def outage() -> None:
            raise Unreachable("the store does not answer")

        lossy: Any = LossyStore(engine.store, outage)
        with pytest.raises(Unknown):
            async with engine_on(lossy).transaction() as tx:
                tx.submit(flow, "bolt")
        assert len(await engine.jobs()) == 1

    async def test_of_many_who_decide_at_once_none_is_lost(self, engine: Engine, handles: Sequence[Parts]) -> None:
        await engine.run("add", article="bolt", amount=0)

        async def add_one(store: Parts) -> None:
            mine = engine_on(store)
            while True:
                try:
                    async with mine.transaction() as tx:
                        found = await tx.one("amount", article="bolt")
                        assert found is not None
                        tx.run("set", article="bolt", amount=found[0] + 1, version=found[1], expect=1)
                    return
                except Conflict:
                    continue

        await asyncio.gather(*(add_one(handles[n % len(handles)]) for n in range(12)))
        assert await engine.one("amount", article="bolt") == (12, 12)

    async def test_the_account_and_the_transaction_are_out_of_reach(self, engine: Engine) -> None:
        await engine.submit(flow, "bolt")
        for name in ("account", "commit"):
            with pytest.raises(CallerError, match="is refused"):
                await engine.run(name)
        assert len(await engine.jobs()) == 1

    async def test_names_and_values_that_do_not_fit_are_refused_at_once(self, engine: Engine) -> None:
        async with engine.transaction() as tx:
            with pytest.raises(NotFound, match="no statement nothing"):
                tx.run("nothing")
            with pytest.raises(CallerError, match="no value for :amount"):
                tx.run("add", article="bolt")
            with pytest.raises(CallerError, match="add writes"):
                await tx.rows("add", article="bolt", amount=1)
        with pytest.raises(CallerError, match="is over"):
            tx.run("add", article="bolt", amount=1)
        with pytest.raises(SchemaMismatch):
            await engine.run("missing", article="bolt")
        with pytest.raises(CallerError):
            await engine.run("add", article="bolt", amount=object())
        with pytest.raises(TooLarge, match="UNIT_RUNS_MAX"):
            async with engine.transaction() as tx:
                tx.run_many("take", [{"article": "bolt"}] * (UNIT_RUNS_MAX + 1))

    async def test_values_come_back_as_they_were(self, engine: Engine) -> None:
        seen = datetime(2026, 11, 16, 14, 52, 19, 123456, tzinfo=UTC)
        values: dict[str, Any] = {
            "seen": seen,
            "day": date(2026, 2, 28),
            "tags": {"a": [1, "ă"]},
            "ok": True,
            "raw": b"\x00\xff",
        }
        await engine.run("keep", **values)
        await engine.run("keep", **dict.fromkeys(values))
        assert await engine.rows("kept") == [tuple(values.values()), (None,) * 5]

    async def test_an_empty_unit_does_nothing(self, engine: Engine) -> None:
        async with engine.transaction() as tx:
            assert await tx.one("amount", article="bolt") is None
        assert await remains(engine) == ([], 0, [])


class MigrationContract:
    """`ports.tables.Tables`: migrations."""

    async def test_each_migration_is_applied_once(self, store: Parts, handles: Sequence[Parts]) -> None:
        more = TableMigration(2, "more", (TablePart("", "INSERT INTO shelf (article) VALUES ('first')"),))
        assert await store.tables.migrate("contract", [SHELF]) == ["shelf"]
        assert await store.tables.migrate("contract", [SHELF]) == []
        made = await asyncio.gather(*(each.tables.migrate("contract", [SHELF, more]) for each in handles))
        assert sorted(made) == [[]] * (len(handles) - 1) + [["more"]]
        assert await engine_on(store).rows("articles") == [("first",)]

    async def test_a_migration_that_fails_leaves_nothing(self, store: Parts) -> None:
        broken = TableMigration(2, "broken", (TablePart("", "INSERT INTO shelf (absent) VALUES (1)"),))
        with pytest.raises(SchemaMismatch):
            await store.tables.migrate("contract", [SHELF, broken])
        assert await store.tables.migrate("contract", [SHELF]) == ["shelf"]

    async def test_tables_that_are_newer_are_refused(self, store: Parts) -> None:
        await store.tables.migrate("contract", [SHELF, replace(SHELF, number=2, parts=())])
        with pytest.raises(SchemaMismatch, match="contract are at 2"):
            await store.tables.migrate("contract", [SHELF])
        assert await store.tables.migrate("another", []) == []

    async def test_what_somebody_made_before_is_left_as_it_is(self, store: Parts) -> None:
        await store.tables.migrate("contract", [SHELF])
        await engine_on(store).run("add", article="bolt", amount=1)
        again = TablePart("shelf", "CREATE TABLE shelf (article varchar(20))")
        index = TablePart("shelf_amount", "CREATE INDEX shelf_amount ON shelf (amount)")
        assert await store.tables.migrate("another", [TableMigration(1, "mine", (again, index, index))]) == ["mine"]
        assert await engine_on(store).rows("articles") == [("bolt",)]

    async def test_the_account_is_out_of_reach(self, store: Parts) -> None:
        text = ACCOUNT[store.tables.dialect]
        with pytest.raises(CallerError, match="belongs to headrace"):
            await store.tables.migrate("contract", [TableMigration(1, "bad", (TablePart("", text),))])


class TablesContract(UnitContract, MigrationContract):
    """`ports.tables.Tables`: read, apply, migrate."""

    @pytest.fixture
    async def engine(self, store: Parts) -> Engine:
        await store.tables.migrate("contract", [SHELF])
        return engine_on(store)

    @pytest.fixture
    async def handles(self, store: Parts) -> Sequence[Parts]:
        return [store]
