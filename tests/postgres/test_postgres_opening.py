"""Opening a store: the schema that is there, the one that is needed, and words for what stands in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.statements import migrations
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Want
from headrace.core.errors import CallerError, SchemaMismatch, Unreachable
from headrace.core.jobs import Submission
from headrace.core.schema_versions import SchemaVersions
from headrace.testing.contracts.bench import flow, parcel, work
from headrace.testing.rig.postgres import PostgresServer


@pytest.fixture
def empty_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as url:
        yield url


async def test_an_empty_database_becomes_a_store(empty_url: str) -> None:
    store = await PostgresStore.open(empty_url)
    assert list(await store.workers()) == []
    await store.close()
    assert await schema.versions(empty_url) == SchemaVersions(schema.newest(), schema.newest())


async def test_functions_in_a_schema_that_was_no_store_are_left_alone(empty_url: str) -> None:
    """It is made a store by the first command, which nobody expects to take anything away."""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA headrace")
        connection.execute("CREATE FUNCTION headrace.mine() RETURNS integer LANGUAGE sql RETURN 7")
        await (await PostgresStore.open(empty_url)).close()
        assert connection.execute("SELECT headrace.mine()").fetchone() == (7,)


async def test_many_that_migrate_at_once_do_it_once(empty_url: str) -> None:
    applied = await asyncio.gather(*(schema.up(empty_url) for _ in range(6)))
    assert [names for names in applied if names] == [[*(found.title for found in migrations()), "functions"]]


async def test_the_migrations_as_text_make_the_same_store(empty_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("\n".join(f"-- {name}\n{text}" for name, text in schema.text()).encode())
    assert (await schema.versions(empty_url)).current
    assert await schema.up(empty_url) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("INSERT INTO headrace.migration (number, name) VALUES (9999, 'later')", "at most"),
        ("DELETE FROM headrace.migration WHERE number > 3", "needs"),
        ("UPDATE headrace.migration SET functions = 'other'", "with other functions"),
    ],
)
async def test_a_store_of_another_version_is_refused_with_the_way_out(
    postgres_url: str, change: str, words: str
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(change.encode())
    with pytest.raises(SchemaMismatch, match=words) as caught:
        await PostgresStore.open(postgres_url)
    assert caught.value.hint


async def test_a_wrong_password_names_the_store_and_hides_the_password(postgres: PostgresServer) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    postgres.require_password("guarded")
    url = f"postgresql://guarded:secret-word@127.0.0.1:{postgres.port}/postgres"
    with pytest.raises(Unreachable) as caught:
        await PostgresStore.open(url)
    assert f"postgresql://guarded@127.0.0.1:{postgres.port}/postgres" in str(caught.value)
    assert "secret-word" not in f"{caught.value} {caught.value.hint}"
    assert "password" in caught.value.hint


async def test_a_server_that_is_not_there_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/jobs") as caught:
        await PostgresStore.open("postgresql://user:secret-word@127.0.0.1:1/jobs")
    assert "secret-word" not in str(caught.value)


async def test_a_database_that_is_not_there_is_named(postgres: PostgresServer) -> None:
    with pytest.raises(Unreachable, match="does not exist"):
        await PostgresStore.open(postgres.url_of("nowhere"))


async def test_a_url_that_cannot_be_read_is_the_callers_mistake() -> None:
    with pytest.raises(CallerError):
        await PostgresStore.open("postgresql://user:secret-word@host:port:port/x?nonsense=1")


async def test_fences_go_on_rising_in_a_store_restored_from_an_old_backup(postgres_url: str) -> None:
    declared = flow(work("a"))
    want = [Want(declared.name, "a", 1, 1)]
    store = await PostgresStore.open(postgres_url)
    await store.submit(Submission("j", declared.name, declared.graph, (parcel("a", 4),)))
    before = [(await store.claim("w", want, 60.0)).claims[0].fence for _ in range(2)]
    await store.close()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT setval('headrace.fence', 7)")
    restored = await PostgresStore.open(postgres_url)
    after = [(await restored.claim("w", want, 60.0)).claims[0].fence for _ in range(2)]
    await restored.close()
    fences = [*before, *after]
    assert fences == sorted(set(fences))
