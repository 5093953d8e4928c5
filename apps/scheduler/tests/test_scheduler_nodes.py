"""NFR-1: a node of three is down. Jobs go on, no lock is lost, and nothing that was accepted is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scheduler_processes import ENDED_S_MAX, Process, made, services
from waiting import until

from headrace.tables import CassandraOptions
from headrace.testing.rig.cassandra_cluster import CassandraCluster

# The lock of a run lasts as long as by default; it is renewed every ten seconds.
QUICK = {"WORKER_POLL_INTERVAL_MS": "100", "WORKER_BUCKETS": "4"}
ROUNDS = 5


@pytest.fixture
def cluster_environment(cluster_options: CassandraOptions) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "CASSANDRA_CONTACT_POINT": ",".join(cluster_options.hosts),
        "CASSANDRA_PORT": str(cluster_options.port),
        "CASSANDRA_KEYSPACE": cluster_options.keyspace,
        **QUICK,
    }


def sleeping(api: Process, seconds: float) -> str:
    return made(api, {"type": "sleep", "seconds": seconds})


def completed(api: Process, job_id: str) -> bool:
    return bool(api.get(f"/jobs/{job_id}").json()["status"] == "completed")


def test_jobs_go_on_while_a_node_is_paused_and_while_one_is_dead(
    cluster_environment: dict[str, str], cassandra_cluster: CassandraCluster, tmp_path: Path
) -> None:
    with services(cluster_environment, tmp_path, "all", "worker") as (api, _):
        # Longer than a third of its lock: it is renewed while a node is away.
        long = [sleeping(api, 20.0) for _ in range(4)]
        until(lambda: all(api.get(f"/jobs/{each}").json()["last_run"] for each in long), "all run", ENDED_S_MAX)
        paused, killed = cassandra_cluster.nodes[2], cassandra_cluster.nodes[1]
        paused.pause()
        short = [sleeping(api, 0.1) for _ in range(ROUNDS)]
        until(lambda: all(completed(api, each) for each in short), "a paused node stops nothing", ENDED_S_MAX)
        paused.resume()
        killed.kill()
        more = [sleeping(api, 0.1) for _ in range(ROUNDS)]
        until(lambda: all(completed(api, each) for each in more), "a dead node stops nothing", ENDED_S_MAX)
        until(lambda: all(completed(api, each) for each in long), "the long ones end", ENDED_S_MAX)
        runs = [len(api.get(f"/jobs/{each}/runs").json()["runs"]) for each in (*long, *short, *more)]
        assert runs == [1] * len(runs), "no lock was lost"
