"""Where the kill tests run: a SQLite file or the PostgreSQL server of the run, with worker processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_flows import HOLD_S, Crew

from headrace.adapters.postgres import schema
from headrace.testing.rig.workers import WorkerProcesses, copy_flow, flow_command


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    schema.prepare(postgres_database)
    return postgres_database


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    """Start so many worker processes of a flow on a store."""
    copy_flow(Path(__file__).parent, tmp_path, ["killed_flows"])
    started: list[WorkerProcesses] = []

    def start(store: str, flow: str, count: int) -> WorkerProcesses:
        workers = WorkerProcesses(store, flow_command(f"killed_flows:{flow}", HOLD_S), tmp_path)
        started.append(workers)
        workers.start(count, {"KILLS_EFFECTS": str(tmp_path / "effects.db")})
        return workers

    yield start
    for workers in started:
        workers.stop()
