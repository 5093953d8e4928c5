"""`up`: the services together, and what it says to people. On servers of the rig: test_scheduler_scripts.py."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from scheduler_processes import services
from waiting import until

from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace_scheduler.frame import PROGRAM
from headrace_scheduler.rig_servers import available_bytes, node_count

UP_S_MAX = 240.0
SERVICES = ("scheduler all or api", *(f"scheduler {name}" for name in ("all", "api", "worker", "reconciler")))
ANY_PORT = {"WORKER_HTTP_PORT": "0", "ORDERS_HTTP_PORT": "0"}
JOB = {"schedule": "now", "payload": {}, "max_duration_seconds": 60}


@contextmanager
def up(folder: Path, environment: Mapping[str, str]) -> Iterator[ServiceProcess]:
    own = {"PATH": os.environ["PATH"], "HOME": str(folder), **ANY_PORT, **environment}
    run = ServiceProcess(Program("up", (*PROGRAM, "up"), own), folder / "up.log", folder)
    try:
        yield run
    finally:
        run.stop()


def completed(run: ServiceProcess) -> dict[str, Any]:
    """One job from its request to its end."""
    jobs = run.line_with("jobs are taken at").result(UP_S_MAX).rpartition(" ")[2]
    job_id = httpx.post(jobs, json=JOB, trust_env=False, timeout=60.0).raise_for_status().json()["job_id"]

    def look() -> dict[str, Any] | None:
        document: dict[str, Any] = httpx.get(f"{jobs}/{job_id}", trust_env=False, timeout=60.0).json()
        return document if document["status"] == "completed" else None

    return until(look, "it is completed", 120.0)


def shipped(run: ServiceProcess) -> dict[str, Any]:
    """One order from its request to its shipment, which jobs bring about."""
    orders = run.line_with("orders are taken at").result(UP_S_MAX).rpartition(" ")[2]
    shop = orders.removesuffix("/orders")
    httpx.put(
        f"{shop}/inventory/tea", json={"stock": 10, "price": 25_000}, trust_env=False, timeout=60.0
    ).raise_for_status()
    wanted = {"customer_id": "an", "items": [{"sku": "tea", "quantity": 2}]}
    made = httpx.post(orders, json=wanted, trust_env=False, timeout=60.0).raise_for_status().json()

    def look() -> dict[str, Any] | None:
        document: dict[str, Any] = httpx.get(f"{orders}/{made['order_id']}", trust_env=False, timeout=60.0).json()
        return document if document["status"] == "shipped" else None

    return until(look, "it is shipped", 120.0)


def test_the_services_run_in_a_directory(tmp_path: Path, headrace_command: Any) -> None:
    home = tmp_path / "data"
    with up(tmp_path, {"SCHEDULER_HOME": str(home)}) as run:
        assert completed(run)["last_run"]["status"] == "completed"
        assert shipped(run)["total"] == 50_000
        run.line_with("export SCHEDULER_HOME=").result(UP_S_MAX)
        assert sum("is ready at" in line for line in run.lines) == 4
        assert run.exported == {"SCHEDULER_HOME": str(home)}
        checks = headrace_command("scheduler", "doctor", "--json", **run.exported)
        named = {check["name"]: check["state"] for check in json.loads(checks.stdout)["checks"]}
        assert (named["settings"], named["tables"]) == ("ok", "ok")
        assert run.stop(signal.SIGINT) == 0


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("all", {"scheduler all": "ok"}),
        ("api", {"scheduler api": "ok", "scheduler worker": "warning", "scheduler reconciler": "warning"}),
    ],
)
def test_the_doctor_tells_one_process_with_a_worker_from_one_without(
    name: str, found: dict[str, str], tmp_path: Path, headrace_command: Any
) -> None:
    home = {"SCHEDULER_HOME": str(tmp_path / "data")}
    with services({**os.environ, **home}, tmp_path, name) as (process,):
        port = process.url.rpartition(":")[2]
        checks = headrace_command("scheduler", "doctor", "--json", **home, WORKER_HTTP_PORT=port)
    named = {check["name"]: check["state"] for check in json.loads(checks.stdout)["checks"]}
    assert {each: state for each, state in named.items() if each in SERVICES} == found


def test_two_nodes_are_refused(headrace_command: Any) -> None:
    done = headrace_command("scheduler", "up", "--rig", "--nodes", "2")
    assert (done.returncode, "--nodes 1 or --nodes 3" in done.stderr) == (2, True)


@pytest.mark.parametrize(("free_gb", "nodes"), [(1, 1), (2, 3)])
def test_memory_decides_how_many_nodes_there_are(free_gb: int, nodes: int) -> None:
    assert node_count(free_gb * 1024**3) == nodes
    assert available_bytes() > 0
