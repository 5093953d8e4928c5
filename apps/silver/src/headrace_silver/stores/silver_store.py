"""Where the silver layer is kept: PostgreSQL, or a SQLite file with the same meaning.

Both are the ground floor's tables for code that blocks, with a queue on them. What differs lives in one folder each and
in `sql/<dialect>`; tools and reports ask for a statement by its name, which exists in both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from headrace.errors import MissingExtra
from headrace.ports import BlockingTables, TablePart, TableStatement
from headrace.services import Sources, read, setting
from headrace.tables import Statements
from headrace_silver.records.values import Judged, SettledBatch, Task

LOCK = "silver_consume"
FLAG = "SCRAPE_SLOW"
CHANNEL = "silver_task"
STATEMENTS = Statements("headrace_silver")

Judge = Callable[[Sequence[Task], datetime], Judged]

_SQLITE = "sqlite:"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where the silver layer is, as the specification's variable says it."""

    pg_dsn: str = setting(
        "",
        "where PostgreSQL is: a URL or `keyword=value`; `sqlite:///file` works too",
        secret=True,
        without="libpq's own (worker)",
    )

    @staticmethod
    def read(environment: Mapping[str, str]) -> StoreSettings:
        return read(StoreSettings, Sources("", environment))


class TaskBatch(Protocol):
    """Tasks held by an open transaction, most urgent first."""

    @property
    def tasks(self) -> Sequence[Task]: ...

    @property
    def now(self) -> datetime:
        """The database's clock at the start of the transaction, aware and in UTC."""

    @property
    def judged(self) -> Judged | None:
        """What the judge said of these tasks while the batch before was settled; None if it was not asked."""

    def settle(self, judged: Judged, threshold: int | None, judge: Judge | None = None) -> SettledBatch:
        """Write the records, lay the rejects aside, take the tasks off the queue, and commit: all or nothing.

        A record that only the database refuses becomes a reject (`exception`) by itself. With a threshold the flag
        says afterwards whether more tasks than that are ready; None leaves it as it is. Raises a `HeadraceError` if
        the fault is not in a record: then nothing was committed, or the answer to the commit was lost. The judge may be
        asked, while the database works, about the tasks that will probably come next, at the time they were read.
        """


class SilverStore(BlockingTables, Protocol):
    """The tables on one connection, and the queue in them."""

    def create(self) -> None:
        """Make the tables of `db/init.sql` and our own, where they are missing."""

    def lock(self) -> bool:
        """Become the one consumer; False if there is another. Connects anew after the connection was lost."""

    def unlock(self) -> None:
        """Let others consume; does nothing if the lock is not held or went with its connection."""

    def holder(self) -> str | None:
        """Who has the lock right now, in words; None if nobody has."""

    def batch(self, size: int) -> AbstractContextManager[TaskBatch]:
        """Begin a transaction with up to so many ready tasks that nobody else holds, by priority and first_seen.

        Leaving without a settlement rolls back. A lock that was lost with its connection is to be taken again first.
        """

    def wait(self, timeout_s: float) -> None:
        """Until a task may have arrived, or the time is up. A signal handler may end it by raising."""


def open_store(url: str | None) -> SilverStore:
    """The store of a URL: `sqlite:///path` or a path, or whatever libpq takes (None: its own variables)."""
    if url and is_sqlite(url):
        from headrace_silver.stores.sqlite.store import SqliteSilverStore

        return SqliteSilverStore(url.removeprefix("sqlite:///") if url.startswith(_SQLITE) else url)
    try:
        from headrace_silver.stores.postgres.store import PostgresSilverStore
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise MissingExtra("PostgreSQL needs psycopg", "pip install 'headrace[postgres]'") from error
    return PostgresSilverStore(url or "")


def is_sqlite(url: str) -> bool:
    """Whether this leads to a file; everything with a scheme or a `keyword=value` is libpq's."""
    return url.startswith(_SQLITE) or ("://" not in url and "=" not in url)


@cache
def statements(dialect: str) -> Mapping[str, TableStatement]:
    """All statements of a dialect by name."""
    return STATEMENTS.named(dialect)


def parts(dialect: str) -> list[TablePart]:
    """What makes the tables of a dialect."""
    return [part for migration in STATEMENTS.migrations(dialect) for part in migration.parts]


@dataclass(frozen=True, slots=True)
class PresentTables:
    """Which tables are there: the queue, those of ours that a batch writes (and the right to), and all of ours."""

    queue: bool
    usable: bool
    may_create: bool
    whole: bool


def present_tables(store: BlockingTables) -> PresentTables:
    ours = [part.creates for part in parts(store.dialect) if part.creates.startswith("silver_")]
    return PresentTables(*store.rows("silver_present", {"ours": json.dumps(ours)})[0])


def init_script() -> str:
    """The text of `db/init.sql`: inside an installed package, beside the sources of a source tree."""
    package = Path(__file__).resolve().parents[1]
    places = (package / "db" / "init.sql", package.parents[1] / "db" / "init.sql")
    return next(place for place in places if place.exists()).read_text("utf-8")
