"""The services as processes: from a request to the end of its job, through deaths and outages."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from scheduler_processes import QUICK, Process, ended, held, job, made, services
from test_scheduler_metrics import LOCKS
from waiting import until

from headrace.testing.rig.cassandra import CassandraServer

NAMES = (
    "jobs_processed_total",
    "jobs_in_progress",
    "job_duration_seconds_count",
    "jobs_dlq_total",
    *LOCKS,
    "lwt_latency_seconds_count",
)


# The services promise 15; a busy machine takes its part.
ANSWERED_S_MAX = 25.0


def waiting_job(api: Process, gate: Path) -> str:
    """One that runs until the file is there."""
    return made(api, {"type": "command", "argv": ["/bin/sh", "-c", f"until test -e {gate}; do sleep 0.05; done"]})


def series(process: Process) -> dict[str, float]:
    """Samples by name, all labels together."""
    found: dict[str, float] = {}
    for name, value in re.findall(r"^(\w+)(?:\{[^}]*\})? (\S+)$", process.get("/metrics").text, re.MULTILINE):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def test_one_process_takes_jobs_from_the_request_to_their_end(environment: dict[str, str], tmp_path: Path) -> None:
    with services({**environment, **QUICK}, tmp_path, "all") as (process,):
        first = series(process)
        assert set(NAMES) <= set(first)
        assert [name for name in NAMES if first[name]] == []
        assert (process.get("/healthz").status_code, process.get("/readyz").status_code) == (200, 200)
        nothing, failing, slow = (
            made(process, {}),
            made(process, {"type": "fail"}),
            made(process, {"type": "sleep", "seconds": 30}, 0.3),
        )
        assert ended(process, nothing, "completed")["attempts"] == 0
        assert ended(process, failing, "dlq")["attempts"] == 5
        assert "timeout" in str(_dead(process, slow))
        # The end of a job can be read a moment before its run is counted.
        names = ("jobs_processed_total", "jobs_dlq_total", "jobs_in_progress")

        def counts() -> list[float]:
            return [series(process)[name] for name in names]

        until(lambda: counts() == [11.0, 2.0, 0.0], lambda: f"{names} are {counts()}")
        assert process.stop() == 0


def _dead(process: Process, job_id: str) -> list[dict[str, Any]]:
    ended(process, job_id, "dlq")
    return [each for each in process.get("/dlq?limit=200").json()["jobs"] if each["job_id"] == job_id]


def test_a_job_whose_worker_is_killed_is_run_by_another(environment: dict[str, str], tmp_path: Path) -> None:
    variables = {**environment, **QUICK}
    with services(variables, tmp_path, "api", "worker", "worker", "reconciler") as (api, *workers, _):
        job_id = waiting_job(api, gate := tmp_path / "gate")
        first, holder = held(api, job_id, workers)
        holder.kill()
        gate.touch()
        document = ended(api, job_id, "completed")
        assert document["attempts"] == 0
        assert document["last_run"]["fencing_token"] > first["fencing_token"]
        assert document["last_run"]["worker_id"] != first["worker_id"]


def test_a_worker_that_was_frozen_past_its_lock_writes_nothing(environment: dict[str, str], tmp_path: Path) -> None:
    # On a busy machine a shorter lock may be lost before anybody is frozen.
    variables = {**environment, **QUICK, "LOCK_TTL_MS": "5000"}
    with services(variables, tmp_path, "api", "worker", "worker", "reconciler") as (api, *workers, _):
        job_id = waiting_job(api, gate := tmp_path / "gate")
        _, holder = held(api, job_id, workers)
        holder.freeze()
        gate.touch()
        document = ended(api, job_id, "completed")
        holder.wake()
        until(lambda: holder.get("/readyz").status_code == 200, "it is ready again")
        assert holder.stop() == 0
        assert api.get(f"/jobs/{job_id}").json() == document
        runs = api.get(f"/jobs/{job_id}/runs").json()["runs"]
        assert [run["status"] for run in runs] == ["completed", "lost"]


def test_while_cassandra_is_away_nothing_hangs_and_nothing_accepted_is_lost(
    cassandra_environment: dict[str, str], cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    with services({**cassandra_environment, **QUICK, "LOCK_TTL_MS": "5000"}, tmp_path, "all") as (process,):
        accepted = [made(process, {"type": "sleep", "seconds": 0.5}) for _ in range(3)]
        cassandra_server.pause()
        try:
            for ask in (lambda: process.get("/healthz"), lambda: process.post("/jobs", job({}))):
                began = time.monotonic()
                assert ask().status_code == 503
                assert time.monotonic() - began < ANSWERED_S_MAX
        finally:
            cassandra_server.resume()
        until(lambda: process.get("/healthz").status_code == 200, "it is well again")
        for job_id in accepted:
            ended(process, job_id, "completed")
    (log,) = tmp_path.glob("*.log")
    said = log.read_text().splitlines()
    assert any("event=http.refused" in line for line in said)
    assert [line for line in said if not line.startswith("timestamp=")] == [], "what heals has no traceback"


def test_a_missing_keyspace_is_told_with_what_to_do(
    cassandra_environment: dict[str, str], headrace_command: Any
) -> None:
    variables = {**cassandra_environment, "CASSANDRA_KEYSPACE": "nowhere", "WORKER_WAIT_S": "0"}
    done = headrace_command("scheduler", "all", "--port", "0", **variables)
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    assert "headrace scheduler schema" in done.stderr


@pytest.mark.parametrize("buckets", ["2"])
def test_another_number_of_buckets_is_told_with_what_to_do(
    buckets: str, embedded_environment: dict[str, str], headrace_command: Any
) -> None:
    assert headrace_command("scheduler", "schema", **embedded_environment).returncode == 0
    done = headrace_command("scheduler", "api", **{**embedded_environment, "WORKER_BUCKETS": buckets})
    assert "headrace scheduler schema --buckets 2" in done.stderr
    changed = headrace_command("scheduler", "schema", "--buckets", buckets, "--json", **embedded_environment)
    assert (changed.returncode, '"buckets": 2' in changed.stdout) == (0, True)
