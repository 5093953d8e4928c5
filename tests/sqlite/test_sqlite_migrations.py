"""A store that an older headrace wrote is brought up to what this one keeps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import apsw
import pytest

from headrace.adapters.sqlite import schema
from headrace.adapters.sqlite.migrations import APPLICATION_ID, migrate_up
from headrace.adapters.sqlite.statements import migrations
from headrace.adapters.sqlite.store import SqliteStore
from headrace.control import verify
from headrace.core.graph import Graph, StageSpec
from headrace.core.jobs import DeadFilter
from headrace.core.tally import JobState, Tolerance

BEFORE_GENERATIONS = 2
BEFORE_WORKER_LOST = 3


@pytest.mark.parametrize(
    ("tolerate", "said", "found"),
    [
        (Tolerance(), "finished", JobState.FAILED),
        (Tolerance(count=1), "finished", JobState.FINISHED),
        (Tolerance(percent=10.0), "finished", JobState.FAILED),
        (Tolerance(percent=30.0), "failed", JobState.FINISHED),
    ],
)
async def test_a_job_redriven_in_part_is_judged_anew(
    tmp_path: Path, tolerate: Tolerance, said: str, found: JobState
) -> None:
    graph = Graph.build([StageSpec("read", tolerate=tolerate)])
    connection = apsw.Connection(str(tmp_path / "store.db"))
    _make(connection, BEFORE_GENERATIONS)
    for line in _redriven_in_part(graph, said):
        connection.execute(line)
    assert migrate_up(connection)
    connection.close()
    store = await SqliteStore.open(str(tmp_path / "store.db"))
    assert (await store.job("job")).state is found
    assert (await store.job("job")).stages["read"].dead == 1
    assert [finish.state for finish in await store.finishes("job")] == [JobState.FAILED, found]
    assert (await verify(store, "job")).findings == ()
    await store.close()


async def test_letters_of_lost_workers_get_the_rule_that_is_documented(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "store.db"))
    _make(connection, BEFORE_WORKER_LOST)
    for line in _redriven_in_part(Graph.build([StageSpec("read")]), "failed"):
        connection.execute(line)
    connection.execute("UPDATE headrace_dead SET reason = 'worker_lost', rule = 'crashes_max'")
    assert migrate_up(connection)
    connection.close()
    store = await SqliteStore.open(str(tmp_path / "store.db"))
    assert [letter.seq for letter in await store.dead(DeadFilter(rule="worker_lost"))] == [2]
    await store.close()


async def test_the_migrations_as_text_make_the_same_store(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    connection = apsw.Connection(path)
    connection.execute("\n".join(f"-- {name}\n{text}" for name, text in schema.text()))
    connection.close()
    assert (await schema.versions(path)).current
    assert await schema.up(path) == []


def _make(connection: apsw.Connection, version: int) -> None:
    for number, _, text in migrations():
        if number <= version:
            connection.execute(text)
    connection.pragma("user_version", version)
    connection.pragma("application_id", APPLICATION_ID)


def _redriven_in_part(graph: Graph, said: str) -> Iterable[str]:
    """Of four items two died; one of them was redriven and is done."""
    yield f"INSERT INTO headrace_graph VALUES ('g', '{graph.dump()}')"
    yield (
        "INSERT INTO headrace_job (id, tenant, flow, graph, priority, state, generation, stages_open, pruned,"
        f" submitted_at, ended_at, keep_s, digest) VALUES ('job', 't', 'f', 'g', 0, '{said}', 2, 0, 2, 1, 2, 1, '')"
    )
    columns = "(job, generation, position, name, feeders_open, total, done, dead, closed_at)"
    yield f"INSERT INTO headrace_stage {columns} VALUES ('job', 1, 0, 'read', 0, 4, 2, 2, 1)"
    yield f"INSERT INTO headrace_stage {columns} VALUES ('job', 2, 0, 'read', 0, 1, 1, 0, 2)"
    for seq, redriven_in in ((1, "2"), (2, "NULL")):
        yield (
            "INSERT INTO headrace_dead (job, generation, position, seq, tenant, flow, stage, reason, rule, error,"
            " fingerprint, attempts, died_at, depth, redriven_in, payload)"
            f" VALUES ('job', 1, 0, {seq}, 't', 'f', 'read', '', '', '', '', 1, 1, 0, {redriven_in}, x'c0')"
        )
    for generation, state in ((1, "failed"), (2, said)):
        event_id = f"job.{generation}.completed"
        yield f"INSERT INTO headrace_finish VALUES ('job', {generation}, '{state}', '{event_id}', 1)"
        yield (
            "INSERT INTO headrace_event (event_id, topic, job, generation, body, happened_at)"
            f" VALUES ('{event_id}', 'job.completed', 'job', {generation}, '{{}}', 1)"
        )
