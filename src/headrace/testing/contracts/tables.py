"""The contract of an application's tables: one unit of work is one commit, on every store and without one."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, ClassVar

import pytest

from headrace.core.errors import CallerError, Conflict, NotFound, SchemaMismatch, TooLarge, Unknown, Unreachable
from headrace.core.table_columns import Coded, Columns
from headrace.core.table_statements import Row, TableMigration, TablePart, TableStatement
from headrace.core.units import UNIT_RUNS_MAX, Unit, UnitDone
from headrace.ports.parts import Parts
from headrace.ports.tables import TableFeatures, Tables
from headrace.runtime.engine import Engine
from headrace.runtime.flow import Flow
from headrace.runtime.open_tables import OpenTables
from headrace.runtime.unit_of_work import UnitOfWork
from headrace.testing.contracts.selection import Selected, needs
from headrace.testing.contracts.shelf import ACCOUNT, EVENT, HasTables, engine_on, flow, shelf_of, step, tables_on

approved = Flow("approved")


@approved.stage
async def order(article: str) -> None:
    """Somebody has to approve what is ordered."""


approved.external("approval", after="order")


async def told(store: Parts) -> list[str]:
    return [event.event_id for event in (await store.outbox.claim("relay", 10, 30.0)).events]


async def remains(engine: OpenTables) -> tuple[list[str], int, list[str]]:
    """Everything that a unit can leave: articles, the number of jobs, events."""
    articles = [article for (article,) in await engine.rows("articles")]
    if not isinstance(engine, Engine):
        return articles, 0, []
    return articles, len(await engine.jobs()), await told(engine.store)


def record_beside(tx: UnitOfWork, engine: OpenTables) -> None:
    """A job and an event in the same unit, where there is an account."""
    if engine.tables.features.account:
        tx.submit(flow, "bolt")
        tx.publish(EVENT)


class LossyTables:
    """The tables of a store whose first answer to a unit is lost; what happens `meanwhile` is up to the test."""

    def __init__(self, tables: Tables, meanwhile: Callable[[], Awaitable[object]]) -> None:
        self._tables, self._meanwhile, self._calls = tables, meanwhile, 0
        self.dialect, self.features = tables.dialect, tables.features

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

    async def missing(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._tables.missing(owner, migrations)


class UnitContract(Selected):
    """`ports.tables.Tables`: units."""

    table_features: ClassVar[TableFeatures] = TableFeatures()

    @needs("account", of="table_features")
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

    @needs("account", of="table_features")
    async def test_rows_and_the_end_of_an_external_stage_are_one_commit(self, engine: Engine) -> None:
        job, other = [await engine.submit(approved, article) for article in ("bolt", "nut")]
        with pytest.raises(Conflict):
            async with engine.transaction() as tx:
                tx.run("add", article="bolt", amount=2, expect=5)
                tx.close_external(other, "approval", "mail-1")
        assert await engine.close_external(other, "approval", "mail-1"), "nothing of the unit remained"
        async with engine.transaction() as tx:
            tx.run("add", article="bolt", amount=2)
            tx.close_external(job, "approval", "mail-2")
            tx.close_external(job, "approval", "mail-3")
        assert await remains(engine) == (["bolt"], 2, [])
        assert not await engine.close_external(job, "approval", "mail-4")
        async with engine.worker(approved):
            assert (await engine.wait(job, timeout_s=60)).stages["approval"].done == 1

    @needs("account", of="table_features")
    async def test_an_external_event_of_no_job_takes_everything_along(self, engine: Engine) -> None:
        job = await engine.submit(approved, "bolt")
        for where, refusal in ((("nobody", "approval"), NotFound), ((job, "order"), CallerError)):
            with pytest.raises(refusal):
                async with engine.transaction() as tx:
                    tx.run("add", article="bolt", amount=2)
                    tx.close_external(*where, "mail-1")
        assert await remains(engine) == ([], 1, [])
        assert await engine.close_external(job, "approval", "mail-1")

    async def test_what_was_expected_is_told_and_not_what_followed_from_it(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=1)
        with pytest.raises(Conflict):
            async with engine.transaction() as tx:
                tx.run("take", article="bolt")
                tx.run("set", article="bolt", amount=5, version=7, expect=1)
                tx.run("add", article="bolt", amount=2)
                tx.run("take", article="bolt", expect=9)
        assert await engine.one("amount", article="bolt") == (1, 0)

    async def test_a_block_that_raises_leaves_nothing(self, engine: OpenTables) -> None:
        with pytest.raises(ZeroDivisionError):
            async with engine.transaction() as tx:
                tx.run("add", article="bolt", amount=2)
                record_beside(tx, engine)
                raise ZeroDivisionError
        assert await remains(engine) == ([], 0, [])

    async def test_reads_see_what_was_before_the_unit(self, engine: OpenTables) -> None:
        async with engine.transaction() as tx:
            tx.run("add", article="bolt", amount=2)
            assert await tx.rows("articles") == []
            await engine.run("add", article="nut", amount=1)
            assert await tx.rows("articles") == [("nut",)]
            assert await tx.one("amount", article="nut") == (1, 0)
            seen_at_the_end = tx.run("articles")
        assert seen_at_the_end.rows == [("bolt",), ("nut",)], "a recorded read sees what was recorded before it"

    async def test_a_decision_that_was_overtaken_is_a_conflict_and_leaves_nothing(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=2)
        with pytest.raises(Conflict, match="set changed 0 rows where 1"):
            async with engine.transaction() as tx:
                found = await tx.one("amount", article="bolt")
                assert found is not None
                await engine.run("take", article="bolt")
                tx.run("add", article="nut", amount=1)
                tx.run("set", article="bolt", amount=found[0] - 1, version=found[1], expect=1)
                record_beside(tx, engine)
        assert await engine.one("amount", article="bolt") == (1, 1)
        assert await remains(engine) == (["bolt"], 0, [])

    async def test_a_batch_is_whole_or_not_at_all(self, engine: OpenTables) -> None:
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

    async def test_columns_are_as_many_rows(self, engine: OpenTables) -> None:
        amounts = array("q", range(30))
        articles = Coded(array("i", [number // 2 for number in range(30)]), [f"a{number:02}" for number in range(15)])
        odd = Columns({"article": [f"a{number:02}" for number in range(15)], "amount": [None, *range(1, 15)]})
        async with engine.transaction() as tx:
            added = tx.run_many("add", odd, expect=15)
            took = tx.run_many("take", Columns({"article": articles, "amount": amounts}))
        assert (added.count, took.count) == (15, 30)
        found = [await engine.one("amount", article=article) for article in ("a00", "a01", "a14")]
        assert found == [(None, 2), (-1, 2), (12, 2)]
        with pytest.raises(CallerError, match="different lengths"):
            Columns({"article": ["bolt"], "amount": [1, 2]})

    @needs("account", of="table_features")
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

    async def test_a_statement_that_is_refused_takes_everything_along(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=1)
        with pytest.raises(CallerError):
            async with engine.transaction() as tx:
                record_beside(tx, engine)
                tx.run("add", article="bolt", amount=1)
        assert await remains(engine) == (["bolt"], 0, [])

    async def test_a_unit_that_is_sent_again_is_applied_once(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=9)
        has = engine.tables.features
        submissions = (engine.submission(flow, "bolt"),) if has.account else ()
        take = step("take", dialect=engine.tables.dialect, article="bolt")
        unit = Unit("unit-1", (take,), submissions, (EVENT,) if has.account else ())
        first = await engine.tables.apply(unit)
        again = await engine.tables.apply(unit)
        assert first.steps is not None
        assert (first.steps[0].count, first.steps[0].rows) == (1, ((8,),) if has.returning else ())
        assert again.steps is None, "its rows went with the first answer"
        assert [each.job for each in again.submitted] == [each.job for each in submissions]
        assert await engine.one("amount", article="bolt") == (8, 1)
        assert await remains(engine) == (["bolt"], len(submissions), ["sold-1"] * len(submissions))

    async def test_a_conflict_leaves_no_mark(self, engine: OpenTables) -> None:
        unit = Unit("unit-1", (step("take", expect=1, dialect=engine.tables.dialect, article="bolt"),))
        with pytest.raises(Conflict):
            await engine.tables.apply(unit)
        await engine.run("add", article="bolt", amount=9)
        assert (await engine.tables.apply(unit)).steps is not None

    async def test_a_repeatable_unit_is_run_again_with_its_rows(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=9)
        steps = (step("set", article="bolt", amount=5, version=0), step("amount", article="bolt"))
        unit = Unit("unit-1", steps, repeatable=True)
        for _ in range(2):
            done = await engine.tables.apply(unit)
            assert done.steps is not None
            assert done.steps[1].rows == ((5, 1),)

    async def test_a_decision_that_was_right_stays_so_when_its_answer_is_lost(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=2)
        lossy = LossyTables(engine.tables, lambda: engine.run("take", article="bolt"))
        async with tables_on(lossy).transaction() as tx:
            tx.run("unchanged", article="bolt", version=0, expect=1)
            tx.run("add", article="nut", amount=1)
            record_beside(tx, engine)
        articles, jobs, events = await remains(engine)
        assert (articles, jobs, len(events)) == (["bolt", "nut"], *(2 * [int(engine.tables.features.account)]))

    async def test_a_unit_that_only_reads_may_expect_as_well(self, engine: OpenTables) -> None:
        await engine.run("add", article="bolt", amount=2)
        assert await engine.run("unchanged", article="bolt", version=0, expect=1) == [(1,)]
        with pytest.raises(Conflict):
            await engine.run("unchanged", article="bolt", version=1, expect=1)

    async def test_an_outage_after_a_lost_answer_leaves_the_end_unknown(self, engine: OpenTables) -> None:
        async def outage() -> None:
            raise Unreachable("the store does not answer")

        with pytest.raises(Unknown):
            async with tables_on(LossyTables(engine.tables, outage)).transaction() as tx:
                tx.run("add", article="bolt", amount=1)
                record_beside(tx, engine)
        articles, jobs, _ = await remains(engine)
        assert (articles, jobs) == (["bolt"], int(engine.tables.features.account))

    async def test_of_many_who_decide_at_once_none_is_lost(
        self, engine: OpenTables, handles: Sequence[HasTables]
    ) -> None:
        await engine.run("add", article="bolt", amount=0)

        async def add_one(handle: HasTables) -> None:
            mine = tables_on(handle.tables)
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

    async def test_the_account_and_the_transaction_are_out_of_reach(self, engine: OpenTables) -> None:
        if isinstance(engine, Engine):
            await engine.submit(flow, "bolt")
        for name in ("account", "commit"):
            with pytest.raises(CallerError, match="is refused"):
                await engine.run(name)
        assert await remains(engine) == ([], int(engine.tables.features.account), [])

    async def test_names_and_values_that_do_not_fit_are_refused_at_once(self, engine: OpenTables) -> None:
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

    async def test_values_come_back_as_they_were(self, engine: OpenTables) -> None:
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

    async def test_an_empty_unit_does_nothing(self, engine: OpenTables) -> None:
        async with engine.transaction() as tx:
            assert await tx.one("amount", article="bolt") is None
        assert await remains(engine) == ([], 0, [])


class MigrationContract(Selected):
    """`ports.tables.Tables`: migrations."""

    table_features: ClassVar[TableFeatures] = TableFeatures()

    async def test_each_migration_is_applied_once(self, store: HasTables, handles: Sequence[HasTables]) -> None:
        more = TableMigration(2, "more", (TablePart("", "INSERT INTO shelf (article) VALUES ('first')"),))
        both = [shelf_of(store.tables.dialect), TableMigration(2, "nothing", ())]
        assert [await store.tables.missing("contract", both) for _ in range(2)] == [["shelf", "nothing"]] * 2
        assert await store.tables.migrate("contract", [shelf_of(store.tables.dialect)]) == ["shelf"]
        assert await store.tables.missing("contract", both) == ["nothing"]
        assert await store.tables.migrate("contract", [shelf_of(store.tables.dialect)]) == []
        made = await asyncio.gather(
            *(each.tables.migrate("contract", [shelf_of(store.tables.dialect), more]) for each in handles)
        )
        assert sorted(made) == [[]] * (len(handles) - 1) + [["more"]]
        assert await tables_on(store.tables).rows("articles") == [("first",)]

    @needs("transactional_ddl", of="table_features")
    async def test_a_migration_that_fails_leaves_nothing(self, store: HasTables) -> None:
        broken = TableMigration(2, "broken", (TablePart("", "INSERT INTO shelf (absent) VALUES (1)"),))
        with pytest.raises(SchemaMismatch):
            await store.tables.migrate("contract", [shelf_of(store.tables.dialect), broken])
        assert await store.tables.migrate("contract", [shelf_of(store.tables.dialect)]) == ["shelf"]

    async def test_tables_that_are_newer_are_refused(self, store: HasTables) -> None:
        await store.tables.migrate("contract", [shelf_of(store.tables.dialect), TableMigration(2, "shelf", ())])
        with pytest.raises(SchemaMismatch, match="contract are at 2"):
            await store.tables.migrate("contract", [shelf_of(store.tables.dialect)])
        assert await store.tables.migrate("another", []) == []

    async def test_what_somebody_made_before_is_left_as_it_is(self, store: HasTables) -> None:
        await store.tables.migrate("contract", [shelf_of(store.tables.dialect)])
        await tables_on(store.tables).run("add", article="bolt", amount=1)
        again = TablePart("shelf", "CREATE TABLE shelf (article varchar(20))")
        index = TablePart("shelf_amount", "CREATE INDEX shelf_amount ON shelf (amount)")
        assert await store.tables.migrate("another", [TableMigration(1, "mine", (again, index, index))]) == ["mine"]
        assert await tables_on(store.tables).rows("articles") == [("bolt",)]

    async def test_the_account_is_out_of_reach(self, store: HasTables) -> None:
        text = ACCOUNT[store.tables.dialect]
        with pytest.raises(CallerError, match="belongs to headrace"):
            await store.tables.migrate("contract", [TableMigration(1, "bad", (TablePart("", text),))])


class TablesContract(UnitContract, MigrationContract):
    """`ports.tables.Tables`: read, apply, migrate."""

    @pytest.fixture
    async def engine(self, store: Any) -> OpenTables:
        await store.tables.migrate("contract", [shelf_of(store.tables.dialect)])
        return engine_on(store) if store.tables.features.account else tables_on(store.tables)

    @pytest.fixture
    async def handles(self, store: HasTables) -> Sequence[HasTables]:
        return [store]
