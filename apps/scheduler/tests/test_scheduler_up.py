"""`up`: the services together, and what it says to people. On servers of the rig: test_scheduler_scripts.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from scheduler_up import UpRun, up
from waiting import until

from headrace_scheduler.rig_servers import available_bytes, node_count

JOB = {"schedule": "now", "payload": {}, "max_duration_seconds": 60}


def completed(run: UpRun) -> dict[str, Any]:
    """One job from its request to its end."""
    jobs = run.wait_for("jobs are taken at").rpartition(" ")[2]
    job_id = httpx.post(jobs, json=JOB, trust_env=False, timeout=30.0).raise_for_status().json()["job_id"]

    def look() -> dict[str, Any] | None:
        document: dict[str, Any] = httpx.get(f"{jobs}/{job_id}", trust_env=False, timeout=30.0).json()
        return document if document["status"] == "completed" else None

    return until(look, "it is completed", 60.0)


def test_the_three_services_run_in_a_directory(tmp_path: Path, headrace_command: Any) -> None:
    home = tmp_path / "data"
    with up(tmp_path, {"SCHEDULER_HOME": str(home)}) as run:
        assert completed(run)["last_run"]["status"] == "completed"
        run.wait_for("export SCHEDULER_HOME=")
        assert sum("is ready at" in line for line in run.lines) == 3
        assert run.exported == {"SCHEDULER_HOME": str(home)}
        checks = headrace_command("scheduler", "doctor", "--json", **run.exported)
        named = {check["name"]: check["state"] for check in json.loads(checks.stdout)["checks"]}
        assert (named["settings"], named["tables"]) == ("ok", "ok")
        assert run.stop() == 0


def test_two_nodes_are_refused(headrace_command: Any) -> None:
    done = headrace_command("scheduler", "up", "--rig", "--nodes", "2")
    assert (done.returncode, "--nodes 1 or --nodes 3" in done.stderr) == (2, True)


@pytest.mark.parametrize(("free_gb", "nodes"), [(1, 1), (2, 3)])
def test_memory_decides_how_many_nodes_there_are(free_gb: int, nodes: int) -> None:
    assert node_count(free_gb * 1024**3) == nodes
    assert available_bytes() > 0
