"""Tables on a connection that blocks keep the contract in a SQLite file, and are not left behind by it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.adapters.sqlite.blocking_tables import SqliteBlockingTables
from headrace.core.errors import StoreReplaced, Unreachable, UnsafeStore
from headrace.core.table_statements import TablePart
from headrace.ports.blocking_tables import BlockingTables
from headrace.testing.contracts import BlockingTablesContract
from headrace.testing.contracts.blocking_tables import HANDLES, HINT, PARTS, statements_of
from headrace.testing.twins import turns_red


def opened(path: Path, kind: type[SqliteBlockingTables] = SqliteBlockingTables) -> SqliteBlockingTables:
    return kind(str(path), statements_of("sqlite"), HINT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def handles(path: Path) -> Iterator[Sequence[BlockingTables]]:
    handles = [opened(path) for _ in range(HANDLES)]
    yield handles
    for each in handles:
        each.close()


class TestSqliteBlockingTables(BlockingTablesContract):
    """The fixture of the file is the contract's."""


class WithoutTransactions(SqliteBlockingTables):
    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield


class WithoutSavepoints(SqliteBlockingTables):
    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self.connection().in_transaction:
            yield
            return
        with super().transaction():
            yield


class RowByRow(SqliteBlockingTables):
    def load(self, name: str, rows: Iterable[Sequence[object]]) -> None:
        with self.translated():
            self.connection().executemany(statements_of("sqlite")[name].text, rows)


class Unlooking(SqliteBlockingTables):
    def make(self, parts: Sequence[TablePart]) -> None:
        whole = [part for part in parts if part.text.startswith("CREATE TABLE")]
        super().make([TablePart("", f"DROP TABLE IF EXISTS {part.creates}; {part.text}") for part in whole])


TWINS: dict[type[SqliteBlockingTables], Callable[..., None]] = {
    WithoutTransactions: BlockingTablesContract.test_a_transaction_that_raises_leaves_nothing,
    WithoutSavepoints: BlockingTablesContract.test_an_inner_transaction_that_fails_leaves_the_outer_one,
    Unlooking: BlockingTablesContract.test_what_is_there_is_left_as_it_is,
    RowByRow: BlockingTablesContract.test_rows_are_loaded_as_they_come_and_whole_or_not_at_all,
}


@pytest.mark.parametrize("kind", TWINS)
async def test_a_broken_twin_is_noticed(kind: type[SqliteBlockingTables], path: Path) -> None:
    twin = opened(path, kind)
    twin.make(PARTS)
    await turns_red(TWINS[kind], tables=twin, handles=[twin, twin])
    twin.close()


def test_a_file_that_is_not_there_is_not_made_by_looking(path: Path) -> None:
    with pytest.raises(Unreachable) as caught:
        opened(path).rows("shelf")
    assert caught.value.hint == HINT
    assert not path.exists()


def test_a_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_text("article,amount\n" * 100)
    with pytest.raises(UnsafeStore, match=r"shop\.db"):
        opened(path).make(PARTS)


def test_every_commit_is_flushed_and_the_log_is_written_ahead(path: Path) -> None:
    tables = opened(path)
    tables.make(PARTS)
    assert [tables.connection().pragma(name) for name in ("journal_mode", "synchronous")] == ["wal", 2]
    tables.close()


def test_a_file_that_was_replaced_is_neither_written_nor_read(path: Path) -> None:
    tables = opened(path)
    tables.make(PARTS)
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(StoreReplaced, match=r"shop\.db was deleted"), tables.transaction():
        tables.rows("add", {"article": "bolt", "amount": 2})
    with pytest.raises(StoreReplaced):
        tables.rows("add", {"article": "bolt", "amount": 2})
    with pytest.raises(StoreReplaced):
        tables.rows("shelf")
    tables.close()


def test_the_second_library_keeps_away_while_the_file_is_open(path: Path) -> None:
    tables = opened(path)
    tables.make(PARTS)
    with pytest.raises(UnsafeStore, match="sqlite3"):
        sqlite3.connect(path)
    tables.close()
    sqlite3.connect(path).close()
