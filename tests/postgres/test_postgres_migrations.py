"""A store that an older headrace wrote is brought up to what this one keeps."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from headrace.adapters.postgres import schema
from headrace.adapters.postgres.statements import migrations, statements
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
        _make(connection, BEFORE_GENERATIONS)
        connection.execute("INSERT INTO headrace.graph VALUES ('g', %s)", (graph.dump(),))
        connection.execute(REDRIVEN_IN_PART.format(said=said, count=tolerate.count, percent=percent).encode())
    assert await schema.up(empty_url)
    store = await PostgresStore.open(empty_url)
    assert (await store.job("job")).state is found
    assert (await store.job("job")).stages["read"].dead == 1
    assert [finish.state for finish in await store.finishes("job")] == [JobState.FAILED, found]
    assert (await verify(store, "job")).findings == ()
    await store.close()


def _make(connection: psycopg.Connection[tuple[object, ...]], version: int) -> None:
    connection.execute(statements()["migrate_begin"].encode())
    for migration in migrations():
        if migration.number <= version:
            connection.execute(migration.text.encode(), prepare=False)
            connection.execute(statements()["migrate_note"].encode(), (migration.number, migration.name))
