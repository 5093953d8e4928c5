"""The contract of an application's tables on a connection that blocks, in a database that need not be a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import Any

import pytest

from headrace.core.errors import CallerError, NotFound, SchemaMismatch
from headrace.core.table_statements import TablePart, TableStatement
from headrace.ports.blocking_tables import BlockingTables

SHELF = TablePart("shelf", "CREATE TABLE shelf (article varchar(20) PRIMARY KEY, amount integer)")
KEPT = TablePart("kept", "CREATE TABLE kept (seen timestamptz, day date, tags jsonb, ok boolean, raw bytea)")
INDEX = TablePart("shelf_amount", "CREATE INDEX shelf_amount ON shelf (amount)")
PARTS = (SHELF, INDEX, KEPT)
HINT = "shop init makes the tables"
HANDLES = 4
LOADS = {
    "postgres": "COPY shelf (article, amount) FROM STDIN",
    "sqlite": "INSERT INTO shelf (article, amount) VALUES (?, ?)",
}


def statements_of(dialect: str) -> dict[str, TableStatement]:
    texts = {
        "add": "INSERT INTO shelf (article, amount) VALUES (:article, :amount)",
        "take": "UPDATE shelf SET amount = amount - 1 WHERE article = :article RETURNING amount",
        "shelf": "SELECT article, amount FROM shelf ORDER BY article",
        "keep": "INSERT INTO kept (seen, day, tags, ok, raw) VALUES (:seen, :day, :tags, :ok, :raw)",
        "kept": 'SELECT seen AS "a [time]", day AS "b [date]", tags AS "c [json]", ok AS "d [bool]", raw FROM kept',
        "missing": "SELECT article FROM nowhere",
        "load": LOADS[dialect],
    }
    return {name: TableStatement.of(name, text) for name, text in texts.items()}


class BlockingTablesContract:
    """`ports.blocking_tables.BlockingTables`. An adapter brings `handles`: several on one database in which there is
    nothing yet, with the statements above and HINT as what makes the tables."""

    @pytest.fixture
    def tables(self, handles: Sequence[BlockingTables]) -> BlockingTables:
        handles[0].make(PARTS)
        return handles[0]

    def test_a_statement_outside_of_a_transaction_is_committed_at_once(
        self, tables: BlockingTables, handles: Sequence[BlockingTables]
    ) -> None:
        assert tables.rows("add", {"article": "bolt", "amount": 2}) == []
        assert tables.rows("take", {"article": "bolt"}) == [(1,)]
        assert handles[1].rows("shelf") == [("bolt", 1)]

    def test_values_come_back_as_they_were(self, tables: BlockingTables) -> None:
        values: dict[str, Any] = {
            "seen": datetime(2026, 11, 16, 14, 52, 19, 123456, tzinfo=UTC),
            "day": date(2026, 2, 28),
            "tags": {"a": [1, "ă"]},
            "ok": True,
            "raw": b"\x00\xff",
        }
        tables.rows("keep", values)
        tables.rows("keep", dict.fromkeys(values))
        assert tables.rows("kept") == [tuple(values.values()), (None,) * 5]

    def test_a_transaction_is_seen_whole_by_others(
        self, tables: BlockingTables, handles: Sequence[BlockingTables]
    ) -> None:
        with tables.transaction():
            tables.rows("add", {"article": "bolt", "amount": 2})
            tables.load("load", [("nut", 1)])
            assert handles[1].rows("shelf") == []
        assert handles[1].rows("shelf") == [("bolt", 2), ("nut", 1)]

    def test_a_transaction_that_raises_leaves_nothing(self, tables: BlockingTables) -> None:
        with pytest.raises(ZeroDivisionError), tables.transaction():
            tables.rows("add", {"article": "bolt", "amount": 2})
            raise ZeroDivisionError
        assert tables.rows("shelf") == []

    def test_an_inner_transaction_that_fails_leaves_the_outer_one(self, tables: BlockingTables) -> None:
        with tables.transaction():
            tables.rows("add", {"article": "bolt", "amount": 2})
            with pytest.raises(CallerError), tables.transaction():
                tables.rows("add", {"article": "nut", "amount": 2})
                tables.rows("add", {"article": "bolt", "amount": 2})
        assert tables.rows("shelf") == [("bolt", 2)]

    def test_rows_are_loaded_as_they_come_and_whole_or_not_at_all(self, tables: BlockingTables) -> None:
        def rows(count: int) -> Iterator[tuple[str, int]]:
            yield from ((f"a{number:03}", number) for number in range(count))

        def broken() -> Iterator[tuple[str, int]]:
            yield "bolt", 1
            raise CallerError("line 2 is broken")

        tables.load("load", rows(500))
        assert len(tables.rows("shelf")) == 500
        with pytest.raises(CallerError, match="line 2"):
            tables.load("load", broken())
        with pytest.raises(CallerError, match="refused"):
            tables.load("load", [("bolt", 1), ("a007", 1)])
        assert len(tables.rows("shelf")) == 500

    def test_a_refused_statement_is_the_callers_fault_and_a_missing_table_the_operators(
        self, tables: BlockingTables
    ) -> None:
        tables.rows("add", {"article": "bolt", "amount": 2})
        with pytest.raises(CallerError, match="refused"):
            tables.rows("add", {"article": "bolt", "amount": 2})
        with pytest.raises(SchemaMismatch) as caught:
            tables.rows("missing")
        assert caught.value.hint == HINT

    def test_names_and_values_that_do_not_fit_are_refused(self, tables: BlockingTables) -> None:
        with pytest.raises(NotFound, match="no statement nothing"):
            tables.rows("nothing")
        with pytest.raises(NotFound, match="no statement nothing"):
            tables.load("nothing", [])
        with pytest.raises(CallerError, match="no value for :amount"):
            tables.rows("add", {"article": "bolt"})
        with pytest.raises(CallerError, match="add: "):
            tables.rows("add", {"article": "bolt", "amount": object()})
        for value in (object(), 2**70, "\ud800"):
            with pytest.raises(CallerError):
                tables.load("load", [("bolt", value)])
        assert tables.rows("shelf") == []

    def test_what_is_there_is_left_as_it_is(self, tables: BlockingTables, handles: Sequence[BlockingTables]) -> None:
        tables.rows("add", {"article": "bolt", "amount": 2})
        handles[1].make([TablePart("shelf", "CREATE TABLE shelf (other integer)"), *PARTS])
        assert tables.rows("shelf") == [("bolt", 2)]

    def test_parts_that_cannot_all_be_made_are_not_made_at_all(self, handles: Sequence[BlockingTables]) -> None:
        with pytest.raises(SchemaMismatch):
            handles[0].make([SHELF, TablePart("other", "CREATE INDEX other ON nowhere (amount)")])
        with pytest.raises(SchemaMismatch):
            handles[0].rows("shelf")

    def test_of_several_that_make_the_tables_at_once_each_finds_them_made(
        self, handles: Sequence[BlockingTables]
    ) -> None:
        with ThreadPoolExecutor(len(handles)) as threads:
            list(threads.map(lambda each: each.make(PARTS), handles))
        assert [each.rows("shelf") for each in handles] == [[]] * len(handles)

    def test_what_was_closed_is_opened_by_its_next_use(self, tables: BlockingTables) -> None:
        tables.close()
        tables.close()
        tables.rows("add", {"article": "bolt", "amount": 2})
        tables.close()
        assert tables.rows("shelf") == [("bolt", 2)]
