"""Root-cause reports on incidents that were planted: each is named right, and a good time is left in peace."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from scheduler_processes import QUICK, Process, ended, held, made, services
from scheduler_world import World
from test_scheduler_source import FAILURE
from waiting import until

from headrace.sources import ItemState
from headrace.testing.rig.cassandra import CassandraServer
from headrace_scheduler.frame import FRAME
from headrace_scheduler.parts import open_tables
from headrace_scheduler.rca.collection import WhereToLook, collect
from headrace_scheduler.rca.evidence import Evidence
from headrace_scheduler.rca.root_causes import MISSED_LINES, Cause, find_causes

SECRET = "hunter2-of-the-payload"


class Investigator:
    """`headrace scheduler rca` on what the services of a folder have left."""

    def __init__(self, headrace_command: Any, environment: dict[str, str], folder: Path) -> None:
        self._command, self._environment, self._folder = headrace_command, environment, folder

    def look(self, *arguments: str) -> dict[str, Any]:
        logs = [word for path in sorted(self._folder.glob("*.log")) for word in ("--log", str(path))]
        output = ("--output", str(self._folder / "report"))
        done = self._command(
            "scheduler", "rca", "--since", "5m", *logs, *output, *arguments, "--json", **self._environment
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def log_lines(self, words: str) -> int:
        return sum(words in line for path in self._folder.glob("*.log") for line in path.read_text().splitlines())

    def written(self, name: str) -> str:
        return (self._folder / "report" / name).read_text()


@pytest.fixture
def variables(embedded_environment: dict[str, str]) -> dict[str, str]:
    # A lock that is lost because the machine is busy would be one incident more than was planted.
    return {**embedded_environment, **QUICK, "LOCK_TTL_MS": "10000"}


@pytest.fixture
def investigator(headrace_command: Any, variables: dict[str, str], tmp_path: Path) -> Investigator:
    return Investigator(headrace_command, variables, tmp_path)


def causes(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["cause"], each["subject"]) for each in found["causes"]]


def test_a_good_time_has_no_cause(investigator: Investigator, variables: dict[str, str], tmp_path: Path) -> None:
    with services(variables, tmp_path, "all") as (process,):
        for job_id in [made(process, {"type": "sleep", "seconds": 0.05}) for _ in range(12)]:
            ended(process, job_id, "completed")
        found = investigator.look()
    assert (found["headline"], found["causes"]) == ("Nothing looks wrong", [])
    assert found["missing"] == ["metrics: no --prometheus was named"]
    assert investigator.written("rca.md").startswith("# Nothing looks wrong")


def test_a_handler_that_fails_is_named_by_its_class(
    investigator: Investigator, variables: dict[str, str], tmp_path: Path
) -> None:
    with services(variables, tmp_path, "all") as (process,):
        dead = [made(process, {"type": "fail", "message": SECRET}) for _ in range(3)]
        ended(process, made(process, {}), "completed")
        for job_id in dead:
            ended(process, job_id, "dlq")
        found = investigator.look()
    assert causes(found) == [("handler_failing", "RunFailed")]
    assert "15 of 16 runs that ended have failed" in found["causes"][0]["signs"]
    report, page = investigator.written("rca.md"), investigator.written("rca.html")
    for text in (report, page):
        assert "RunFailed" in text
        assert "redrive" in text
        assert SECRET not in text
    assert "▁" in report
    assert "<svg" in page


def test_a_lock_that_another_keeps_is_a_hot_resource(
    investigator: Investigator, variables: dict[str, str], tmp_path: Path
) -> None:
    with services(variables, tmp_path, "all") as (process,):
        made_at = process.post("/jobs", {"schedule": "+PT6S", "payload": {}, "max_duration_seconds": 5})
        resource = f"job:{made_at.json()['job_id']}"

        async def keep() -> None:
            async with open_tables(FRAME.load(variables)) as opened:
                assert (await opened.leases.acquire(resource, "another-program", 120.0)).granted

        asyncio.run(keep())
        until(lambda: investigator.log_lines("event=run.missed") >= MISSED_LINES, "workers ask for it in vain", 120.0)
        found = investigator.look()
    assert causes(found) == [("hot_resource", resource)]
    assert any("another-program holds it" in sign for sign in found["causes"][0]["signs"])


def test_workers_without_room_are_saturated(
    investigator: Investigator, variables: dict[str, str], tmp_path: Path
) -> None:
    with services({**variables, "WORKER_MAX_IN_PROGRESS": "1"}, tmp_path, "all") as (process,):
        jobs = [made(process, {"type": "sleep", "seconds": 1}) for _ in range(22)]
        _wait_for_completed(process, jobs, 7)
        found = investigator.look()
    assert causes(found) == [("saturation", "the workers")]


def test_a_worker_that_was_killed_is_not_taken_for_a_node(
    investigator: Investigator, variables: dict[str, str], tmp_path: Path
) -> None:
    brief = {**variables, "LOCK_TTL_MS": "3000"}
    with services(brief, tmp_path, "api", "worker", "worker", "reconciler") as (api, *workers, _):
        job_id = made(api, {"type": "sleep", "seconds": 4})
        first, holder = held(api, job_id, workers)
        holder.kill()
        ended(api, job_id, "completed")
        found = investigator.look()
    assert causes(found) == [("worker_down", first["worker_id"])]
    assert found["headline"] == f"A worker is down: {first['worker_id']}"


def test_a_cassandra_that_does_not_answer_is_a_node_that_is_down(
    headrace_command: Any, cassandra_environment: dict[str, str], cassandra_server: CassandraServer, tmp_path: Path
) -> None:
    variables = {**cassandra_environment, **QUICK, "LOCK_TTL_MS": "3000"}
    investigator = Investigator(headrace_command, {**variables, "WORKER_WAIT_S": "1"}, tmp_path)
    with services(variables, tmp_path, "all") as (process,):
        assert process.get("/healthz").status_code == 200
        cassandra_server.pause()
        try:
            until(lambda: investigator.log_lines("source.failing") >= 3, "calls fail", 120.0)
        finally:
            cassandra_server.resume()
        until(lambda: process.get("/healthz").status_code == 200, "it is well again")
        found = investigator.look()
    assert causes(found)[0] == ("node_down", "Cassandra")


async def test_a_clock_that_is_ahead_is_told_by_tokens_that_contradict_dates(embedded: World) -> None:
    job = await embedded.create()
    embedded.clock.move(minutes=2)
    ahead = await embedded.hold(job.job_id, "ahead:1")
    assert ahead is not None
    embedded.clock.move(minutes=-2)
    again = embedded.settlement(ItemState.AGAIN, attempts=1, failure=FAILURE)
    assert await embedded.source.settle(ahead, again)
    right = await embedded.hold(job.job_id, "right:2")
    assert right is not None
    assert await embedded.source.settle(right, embedded.settlement())
    now = datetime.now(UTC)
    evidence = await collect(embedded.parts, WhereToLook(now - timedelta(minutes=5), now + timedelta(minutes=1)))
    (found,) = find_causes(evidence)
    assert (found.cause, found.subject) == (Cause.CLOCK_SKEW, "ahead:1 or right:2")
    assert "ahead:1 dated a run" in found.signs[0]


def test_nothing_at_all_has_no_cause() -> None:
    now = datetime.now(UTC)
    assert find_causes(Evidence(now - timedelta(minutes=1), now)) == []


@pytest.mark.parametrize("since", ["", "m", "30", "0m", "-5m", "30 minutes", "1e3s", "9999999d"])
def test_a_span_that_is_none_is_refused(headrace_command: Any, variables: dict[str, str], since: str) -> None:
    done = headrace_command("scheduler", "rca", f"--since={since}", **variables)
    assert done.returncode == 2
    assert "30m" in done.stderr


def _wait_for_completed(process: Process, jobs: list[str], count: int) -> None:
    def enough() -> bool:
        listed = process.get("/jobs?status=completed&limit=200").json()["jobs"]
        return len({each["job_id"] for each in listed} & set(jobs)) >= count

    until(enough, f"{count} jobs are completed", 120.0)
