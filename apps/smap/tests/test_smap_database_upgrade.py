"""A database of an earlier version is brought up to date, and nothing that waits in it is lost on the way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import headrace
from headrace.core.table_statements import TableMigration, TableStatement
from headrace.errors import HeadraceError
from headrace.tables import Statements
from headrace.testing.rig.postgres import PostgresServer
from headrace_smap.database import STATEMENTS, open_database
from headrace_smap.project.export import NAMES
from headrace_smap.settings import SmapSettings

ADD = """INSERT INTO smap_outbox (event_id, topic, body, key, origin, created_at, due_at)
VALUES ('e1', 'project.created', :body, 'p1', 'p1', :now, :now)"""
PUBLISH = "UPDATE smap_outbox SET published_at = :now"


ANALYSED = (
    "INSERT INTO post_analytics (project_id, minio_path, author_name, views) VALUES ('p1', :path, :author, :views)"
)
DATED = """INSERT INTO post_analytics (project_id, minio_path, published_at, analyzed_at)
VALUES ('p1', :path, :published_at, :analyzed_at)"""


class BeforeUnknownFigures(Statements):
    """smap as it was when what nobody told was 0."""

    def named(self, dialect: str) -> dict[str, TableStatement]:
        return {"analysed": TableStatement.of("analysed", ANALYSED, True)}

    def migrations(self, dialect: str) -> tuple[TableMigration, ...]:
        return STATEMENTS.migrations(dialect)[:3]


class BeforeEngineOutbox(Statements):
    """smap with an outbox of its own."""

    def named(self, dialect: str) -> dict[str, TableStatement]:
        return {name: TableStatement.of(name, text, True) for name, text in (("add", ADD), ("publish", PUBLISH))}

    def migrations(self, dialect: str) -> tuple[TableMigration, ...]:
        return STATEMENTS.migrations(dialect)[:2]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield SmapSettings(home=tmp_path).engine_url
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as dsn:
        yield SmapSettings(home=tmp_path, pg_dsn=dsn).engine_url


async def test_the_old_outbox_goes_when_it_is_empty_and_not_before(url: str) -> None:
    now = datetime(2025, 11, 29, tzinfo=UTC)
    before = BeforeEngineOutbox(STATEMENTS.package, repeatable=True)
    async with headrace.connect(url, tables=before) as engine, engine.transaction() as tx:
        tx.run("add", body=b"{}", now=now)
    with pytest.raises(HeadraceError, match="smap_outbox_has_unpublished_events"):
        async with open_database(url):
            pass
    async with headrace.connect(url, tables=before) as engine, engine.transaction() as tx:
        tx.run("publish", now=now)
    async with open_database(url) as database:
        assert await database.rows("retry_count", project="p1", seed="s") == [(0,)]


async def test_zeros_that_nobody_told_become_unknown_and_made_up_posts_are_marked(url: str) -> None:
    before = BeforeUnknownFigures(STATEMENTS.package, repeatable=True)
    async with headrace.connect(url, tables=before) as engine, engine.transaction() as tx:
        tx.run("analysed", path="counted", author="An", views=0)
        tx.run("analysed", path="feed", author=None, views=None)
        tx.run("analysed", path="made up", author="An (simulated)", views=7)
    async with open_database(url) as database:
        stored = await database.rows("project_results", project="p1", after="", room=9)
    rows = [dict(zip(NAMES, row, strict=True)) for row in stored]
    columns = ("minio_path", "reach", "engagement", "engagement_rate", "impact", "simulated")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("counted", 0, 0, 0.0, 0.0, False),
        ("feed", None, None, None, None, False),
        ("made up", 0, 0, 0.0, 0.0, True),
    ]


class BeforeTimezone(Statements):
    """smap as it was when days were those of UTC."""

    def named(self, dialect: str) -> dict[str, TableStatement]:
        return {"dated": TableStatement.of("dated", DATED, True)}

    def migrations(self, dialect: str) -> tuple[TableMigration, ...]:
        return STATEMENTS.migrations(dialect)[:5]


async def test_days_of_utc_become_those_of_vietnam(url: str) -> None:
    before = BeforeTimezone(STATEMENTS.package, repeatable=True)
    times = [datetime(2025, 1, 1, 16, 59, 59, tzinfo=UTC), datetime(2025, 1, 1, 17, tzinfo=UTC), None]
    async with headrace.connect(url, tables=before) as engine, engine.transaction() as tx:
        for number, published_at in enumerate(times):
            tx.run(
                "dated", path=str(number), published_at=published_at, analyzed_at=datetime(2025, 1, 2, 17, tzinfo=UTC)
            )
    async with open_database(url) as database:
        stored = await database.rows("project_results", project="p1", after="", room=9)
    rows = [dict(zip(NAMES, row, strict=True)) for row in stored]
    assert [(row["day"].isoformat(), row["timezone"]) for row in rows] == [
        ("2025-01-01", "Asia/Ho_Chi_Minh"),
        ("2025-01-02", "Asia/Ho_Chi_Minh"),
        ("2025-01-03", "Asia/Ho_Chi_Minh"),
    ]
