"""The four scripts over the rig: three nodes, PostgreSQL, Prometheus and the services, from start to stop."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from waiting import until

from headrace.testing.service_process import exported_variables

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
SCRIPT_S_MAX = 600.0


class Stack:
    """The scripts, on a place of their own."""

    def __init__(self, place: Path) -> None:
        # A directory in the environment is left alone: the scripts are for Cassandra.
        home = {"SCHEDULER_HOME": str(place / "unused")}
        self._environment = {
            **os.environ,
            **home,
            "SCHEDULER_STACK": str(place),
            "WORKER_HTTP_PORT": "0",
            "ORDERS_HTTP_PORT": "0",
        }
        self.place = place

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [SCRIPTS / f"{name}.sh", *arguments]
        return subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=SCRIPT_S_MAX, check=False
        )

    @property
    def lines(self) -> list[str]:
        return (self.place / "up.out").read_text("utf-8").splitlines()

    def word(self, words: str) -> str:
        return next(line for line in self.lines if line.startswith(words)).rpartition(" ")[2]

    @property
    def exported(self) -> dict[str, str]:
        return exported_variables(self.lines)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    made = Stack(tmp_path_factory.mktemp("stack"))
    started = made.run("start", "--nodes", "3")
    try:
        assert started.returncode == 0, started.stderr
        yield made
    finally:
        made.run("stop")


def test_three_nodes_are_up_and_starting_again_changes_nothing(stack: Stack) -> None:
    assert stack.exported["CASSANDRA_CONTACT_POINT"] == "127.0.0.1,127.0.0.2,127.0.0.3"
    assert stack.exported["ORDERS_PG_DSN"].startswith("postgresql://")
    assert not (stack.place / "unused").exists()
    assert sum(" is ready at " in line for line in stack.lines) == 4
    assert "up already" in stack.run("start").stdout


def test_the_smoke_test_makes_its_five_checks(stack: Stack) -> None:
    assert "job_scheduler is ready" in stack.run("init_schema").stdout
    done = stack.run("smoke_test")
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["ok", str(number)] for number in range(1, 6)]
    prometheus = stack.word("metrics are scraped by")
    until(lambda: _counted(prometheus) >= 1, "Prometheus has counted the job", 120.0)


def _counted(prometheus: str) -> float:
    query = quote('sum(jobs_processed_total{status="completed"})')
    found: Any = httpx.get(
        f"{prometheus}/api/v1/query?query={query}", trust_env=False, verify=False, timeout=30.0
    ).json()
    return sum(float(each["value"][1]) for each in found["data"]["result"])


def test_after_the_stop_nothing_is_left_and_the_other_scripts_say_so(stack: Stack) -> None:
    url = stack.word("jobs are taken at")
    assert "is down" in stack.run("stop").stdout
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False, verify=False)
    for name in ("init_schema", "smoke_test"):
        done = stack.run(name)
        assert (done.returncode, "start.sh" in done.stderr) == (1, True)
    assert stack.run("stop").stdout.strip() == "the stack is not up"


def test_a_stack_that_cannot_start_shows_why(tmp_path: Path) -> None:
    done = Stack(tmp_path).run("start", "--nodes", "2")
    assert (done.returncode, "--nodes 1 or --nodes 3" in done.stderr) == (1, True)
