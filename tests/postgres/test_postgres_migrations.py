"""A store that an older headrace wrote is brought up to what this one keeps."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from landed_migrations import NEWEST, make_store

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.store import PostgresStore
from headrace.control import verify
from headrace.core.graph import Graph, StageSpec
from headrace.core.tally import JobState, Tolerance
from headrace.testing.rig.postgres import PostgresServer

BEFORE_GENERATIONS = 13

# Of four items two died; one of them was redriven and is done.
REDRIVEN_IN_PART = """
INSERT INTO headrace.job (id, tenant, flow, graph, digest, priority, state, generation, stages_open, pruned, ended_at,
                          keep_s)
VALUES ('job', 't', 'f', 'g', '', 0, '{said}', 2, 0, 2, now(), 1);
INSERT INTO headrace.stage (job, generation, position, name, kind, feeders, feeders_open, total, done, dead, closed_at,
                            arrows, feeds, upstream, after_positions, unique_keys, always, every_generation, stop_early,
                            tolerate_count, tolerate_percent)
SELECT 'job', g, 0, 'read', 0, 0, 0, total, done, dead, now(), '{{}}', '{{}}', '{{}}', '{{}}', false, false, true,
       false, {count}, {percent}
  FROM (VALUES (1, 4, 2, 2), (2, 1, 1, 0)) counted(g, total, done, dead);
INSERT INTO headrace.dead (job, generation, position, seq, tenant, flow, stage, reason, rule, error, fingerprint,
                           attempts, depth, redriven_in, payload)
SELECT 'job', 1, 0, seq, 't', 'f', 'read', '', '', '', '', 1, 0, redriven_in, '\\xc0'
  FROM (VALUES (1, 2), (2, NULL)) letter(seq, redriven_in);
INSERT INTO headrace.finish (job, generation, state, event_id, crossed_at)
VALUES ('job', 1, 'failed', 'job.1.completed', now()), ('job', 2, '{said}', 'job.2.completed', now());
INSERT INTO headrace.event (event_id, topic, job, generation, body, happened_at)
VALUES ('job.1.completed', 'job.completed', 'job', 1, '{{}}', now()),
       ('job.2.completed', 'job.completed', 'job', 2, '{{}}', now());
"""

# Everything that a statement of ours can meet, a line each: tables and types with their columns, constraints, indexes,
# sequences, and functions whole.
CATALOG = """
SELECT concat_ws(' ', c.relname, c.relkind, c.reloptions, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                 a.attnotnull, a.attstorage, a.attidentity, a.attgenerated, a.attcollation::regcollation,
                 pg_get_expr(d.adbin, d.adrelid))
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'headrace'::regnamespace
UNION ALL
SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
 WHERE connamespace = 'headrace'::regnamespace
UNION ALL
SELECT indexdef FROM pg_indexes WHERE schemaname = 'headrace'
UNION ALL
SELECT concat_ws(' ', sequencename, data_type, start_value, increment_by) FROM pg_sequences
 WHERE schemaname = 'headrace'
UNION ALL
SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'headrace'::regnamespace
 ORDER BY 1
"""


@pytest.fixture
def empty_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as url:
        yield url


@pytest.mark.parametrize(
    ("tolerate", "said", "found"),
    [
        (Tolerance(), "finished", JobState.FAILED),
        (Tolerance(percent=30.0), "failed", JobState.FINISHED),
    ],
)
async def test_a_job_redriven_in_part_is_judged_anew(
    empty_url: str, tolerate: Tolerance, said: str, found: JobState
) -> None:
    graph = Graph.build([StageSpec("read", tolerate=tolerate)])
    percent = "NULL" if tolerate.percent is None else tolerate.percent
    with psycopg.connect(empty_url, autocommit=True) as connection:
        make_store(connection, BEFORE_GENERATIONS)
        connection.execute("INSERT INTO headrace.graph VALUES ('g', %s)", (graph.dump(),))
        connection.execute(REDRIVEN_IN_PART.format(said=said, count=tolerate.count, percent=percent).encode())
    assert await schema.up(empty_url)
    store = await PostgresStore.open(empty_url)
    assert (await store.job("job")).state is found
    assert (await store.job("job")).stages["read"].dead == 1
    assert [finish.state for finish in await store.finishes("job")] == [JobState.FAILED, found]
    assert (await verify(store, "job")).findings == ()
    await store.close()


async def test_a_store_of_every_version_becomes_the_same_as_a_new_one(empty_url: str, postgres_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection, psycopg.connect(postgres_url) as fresh:
        wanted = catalog(fresh)
        assert len(wanted) > 500
        for version in range(1, NEWEST + 1):
            make_store(connection, version)
            assert await schema.up(empty_url)
            assert (version, *differences(catalog(connection), wanted)) == (version,)
            connection.execute("DROP SCHEMA headrace CASCADE")


async def test_functions_that_nobody_knows_are_dropped(empty_url: str, postgres_url: str) -> None:
    with psycopg.connect(empty_url, autocommit=True) as connection, psycopg.connect(postgres_url) as fresh:
        make_store(connection, NEWEST)
        connection.execute("CREATE FUNCTION headrace.settle(integer) RETURNS integer LANGUAGE sql RETURN 1")
        connection.execute("CREATE FUNCTION headrace.former() RETURNS integer LANGUAGE sql RETURN headrace.settle(1)")
        await schema.up(empty_url)
        assert differences(catalog(connection), catalog(fresh)) == []


def catalog(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    return [str(row[0]) for row in connection.execute(CATALOG.encode())]


def differences(found: list[str], wanted: list[str]) -> list[str]:
    return [
        *(f"- {line}" for line in wanted if line not in found),
        *(f"+ {line}" for line in found if line not in wanted),
    ]
