"""A shelf and what is kept on it: the tables and statements of the contracts of tables, in every dialect.

They are written so that every dialect takes them as they are; where one cannot, it has words of its own.
"""

from __future__ import annotations

from typing import Protocol

from headrace.core.backoff import Backoff
from headrace.core.catalogue import Catalogue
from headrace.core.events import Event
from headrace.core.table_statements import Step, TableMigration, TablePart, TableStatement
from headrace.ports.parts import Parts
from headrace.ports.tables import Tables
from headrace.runtime.engine import Engine
from headrace.runtime.flow import Flow
from headrace.runtime.open_tables import OpenTables
from headrace.runtime.seams import Seams


class HasTables(Protocol):
    """A store, or whatever else has tables."""

    @property
    def tables(self) -> Tables: ...


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
ACCOUNT = {
    "sqlite": "DELETE FROM headrace_job",
    "postgres": "DELETE FROM headrace.job",
    "mysql": "DELETE FROM headrace_unit",
}
# What a dialect says in other words, for those that do not take the statements above.
WORDS = {
    "mysql": {
        "take": "UPDATE shelf SET amount = amount - 1, version = version + 1 WHERE article = :article",
        "kept table": "CREATE TABLE kept (seen datetime(6), day date, tags json, ok boolean, raw varbinary(20))",
    }
}
KEPT = "CREATE TABLE kept (seen timestamptz, day date, tags jsonb, ok boolean, raw bytea)"
EVENT = Event("sold-1", "shop.sold", b"{}")


def shelf_of(dialect: str) -> TableMigration:
    """The contract's tables."""
    shelf = "CREATE TABLE shelf (article varchar(20) PRIMARY KEY, amount integer, version integer NOT NULL DEFAULT 0)"
    kept = WORDS.get(dialect, {}).get("kept table", KEPT)
    return TableMigration(1, "shelf", (TablePart("", shelf), TablePart("", kept)))


SHELF = shelf_of("postgres")

flow = Flow("orders")


@flow.stage
async def deliver(article: str) -> None: ...


def catalogue_of(dialect: str) -> Catalogue:
    texts = {**STATEMENTS, **WORDS.get(dialect, {}), "account": ACCOUNT[dialect]}
    return Catalogue({name: TableStatement.of(name, text) for name, text in texts.items()})


def engine_on(store: Parts) -> Engine:
    return Engine(store, Seams(), catalogue_of(store.tables.dialect))


def tables_on(tables: Tables) -> OpenTables:
    """Tables without a store around them, whose patience with an outage is the usual one and passes quickly."""
    return OpenTables(tables, Seams(), catalogue_of(tables.dialect), Backoff(0.001, 0.01))


def step(name: str, expect: int | None = None, dialect: str = "postgres", **values: object) -> Step:
    return catalogue_of(dialect).step(name, (values,), expect)
