"""Functions stand once, in files of their own, and change with the version of the schema."""

from __future__ import annotations

import asyncio
import re
from collections import Counter

import psycopg
import pytest
from waiting import eventually

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.statements import functions, functions_digest, migrations
from headrace.core.errors import SchemaMismatch

# The functions of each version. A line that has landed is never changed: who changes a function adds a numbered
# migration, if only with a sentence that says what changed, and a line here. Otherwise stores that have the version
# would keep the functions of before.
DIGESTS = {
    23: "bc7d59efaac66758",
    24: "d5e27fd41843b765",
    25: "2a7dff503c293964",
}
DEFINED = re.compile(r"^CREATE FUNCTION headrace\.(\w+)", re.MULTILINE)
FUNCTIONS = "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'headrace'::regnamespace ORDER BY 1, 2"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


def test_functions_change_with_the_version_only() -> None:
    assert {schema.newest(): functions_digest()}.items() <= DIGESTS.items()


def test_a_function_stands_once() -> None:
    found = Counter(name for _, text in functions() for name in DEFINED.findall(text))
    assert len(found) > 100
    assert [name for name, count in found.items() if count > 1] == []


def test_numbered_migrations_hold_no_functions() -> None:
    assert [found.title for found in migrations() if re.search(r"FUNCTION headrace\.", found.text)] == []


async def test_functions_of_another_code_are_replaced_as_a_whole(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        before = connection.execute(FUNCTIONS).fetchall()
        connection.execute("DROP FUNCTION headrace.hush")
        connection.execute("CREATE FUNCTION headrace.hush(wanted text) RETURNS text LANGUAGE sql RETURN wanted")
        assert await schema.up(postgres_url) == []
        connection.execute("UPDATE headrace.migration SET functions = 'other' WHERE number = %s", (schema.newest(),))
        assert await schema.up(postgres_url) == ["functions"]
        assert connection.execute(FUNCTIONS).fetchall() == before
        assert await schema.up(postgres_url) == []


async def test_functions_that_were_dropped_by_hand_are_missed_and_made(postgres_url: str) -> None:
    """As by the text of a new store, applied to one that was there: it stops at the first table, and outside of a
    transaction the functions are gone."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        before = connection.execute(FUNCTIONS).fetchall()
        for _, step in schema.text()[:2]:
            connection.execute(step.encode())
        with pytest.raises(psycopg.errors.DuplicateTable):
            connection.execute(schema.text()[2][1].encode())
        assert connection.execute(FUNCTIONS).fetchall() == []
        assert (await schema.versions(postgres_url)).functions_differ
        assert await schema.up(postgres_url) == ["functions"]
        assert connection.execute(FUNCTIONS).fetchall() == before


async def test_one_who_waited_for_a_newer_headrace_leaves_its_functions_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as newer, psycopg.connect(postgres_url, autocommit=True) as watcher:
        newer.execute("SELECT pg_advisory_xact_lock(5216373)")
        newer.execute("INSERT INTO headrace.migration (number, name, functions) VALUES (9999, 'later', 'later')")
        newer.execute("CREATE FUNCTION headrace.later() RETURNS integer LANGUAGE sql RETURN 1")
        older = asyncio.create_task(schema.up(postgres_url))
        await eventually(lambda: watcher.execute(WAITING).fetchone() is not None, "the older one waits")
        newer.commit()
        with pytest.raises(SchemaMismatch, match="at most"):
            await older
        assert ("later",) in watcher.execute("SELECT proname FROM pg_proc WHERE proname = 'later'").fetchall()
