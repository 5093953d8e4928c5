"""The benchmarks run, say what they promise to, and write their report. How fast anything is, is not asked here."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import CallerError
from headrace_scheduler.bench.bench_place import bench_place
from headrace_scheduler.bench.bench_plan import BenchPlan, Finding
from headrace_scheduler.bench.bench_report import INCOMPLETE, page, write_report
from headrace_scheduler.bench.contender import RAW, RAW_LOCKS, SPECIFICATION
from headrace_scheduler.bench.job_bench import DIRECT, JobLoad, contender
from headrace_scheduler.bench.plain_driver import plain_session
from headrace_scheduler.bench.scheduler_bench import goals
from headrace_scheduler.commands.bench import plan_of

SCRIPT = Path(__file__).resolve().parents[3] / "bench" / "scheduler.py"
BENCH_S_MAX = 900
SMALL = ("--threads", "2", "--ttl-ms", "1000", "--seconds", "0.5", "--n", "50", "--rounds", "1", "--workers", "2")


def ran(environment: dict[str, str], folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=BENCH_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_small_run_measures_locks_and_jobs_and_writes_its_report(
    cassandra_environment: dict[str, str], tmp_path: Path
) -> None:
    said = ran(cassandra_environment, tmp_path, str(SCRIPT), "--json", "--parts", "locks,jobs,workers", *SMALL)
    by_part: dict[str, list[Finding]] = {}
    for line in said.splitlines():
        finding = json.loads(line)
        by_part.setdefault(finding["part"], []).append(finding)
    mixes = [(each["contention"], each["op"]) for each in by_part["locks"]]
    operations = ("acquire", "renew", "release", "takeover", "next_seq")
    assert mixes == [(contention, op) for contention in ("low", "medium", "high") for op in operations]
    assert {"ops_per_s", "p50_ms", "p95_ms", "p99_ms", "refused", "client_cpu_ms_per_op"} <= set(by_part["locks"][0])
    assert [each["who"] for each in by_part["jobs"]] == ["specification", "raw locks", "raw", "headrace"]
    assert all(float(str(each["jobs_per_s"])) > 0 for each in by_part["jobs"] + by_part["workers"])
    assert [each["workers"] for each in by_part["workers"]] == [1, 2]
    folder = tmp_path / "bench-report"
    assert {file.name for file in folder.iterdir()} == {
        "bench.json",
        "bench.html",
        *(f"{part}.csv" for part in by_part),
    }
    with (folder / "jobs.csv").open(encoding="utf-8") as file:
        assert [row["who"] for row in csv.DictReader(file)] == ["specification", "raw locks", "raw", "headrace"]
    html = (folder / "bench.html").read_text("utf-8")
    assert "<svg" in html
    assert "Jobs end to end" in html


def test_an_interrupted_run_leaves_what_was_measured(cassandra_environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--json", "--parts", "locks,finished", *SMALL, "--output", "found"]
    environment = {**os.environ, **cassandra_environment}
    # A run of tests in the background ignores it, and so would its children.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        signal.signal(signal.SIGINT, before)
        first = json.loads(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        running.stdout.read()
    assert running.returncode != 0
    whole = json.loads((tmp_path / "found" / "bench.json").read_text("utf-8"))
    assert (whole["complete"], whole["findings"][0]) == (False, first)
    assert INCOMPLETE in (tmp_path / "found" / "bench.html").read_text("utf-8")
    assert (tmp_path / "found" / "locks.csv").is_file()


def test_a_report_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    """Whatever stops it: an interrupt comes while the next finding is being written."""
    idle: Finding = {"part": "idle", "core_share": 0.03}
    files = write_report([idle], tmp_path, complete=False)
    before = {file: file.read_bytes() for file in files}
    with pytest.raises(UnicodeEncodeError):
        write_report([idle, {"part": "idle", "core_share": "\ud800"}], tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_the_command_measures_the_poll(cassandra_environment: dict[str, str], tmp_path: Path) -> None:
    sizes = ("--idle", "0.5", "--finished", "100", "--locked", "100")
    chosen = ("--parts", "idle,finished,locked", *sizes, "-o", str(tmp_path / "found"))
    document = json.loads(
        ran(cassandra_environment, tmp_path, "-m", "headrace", "--json", "scheduler", "bench", *chosen)
    )
    assert [each["part"] for each in document["findings"]] == ["idle", "finished", "locked", *["goals"] * 3]
    # Not one refusal for each.
    assert int(str(document["findings"][2]["refused"])) < 100
    assert all(Path(file).is_file() for file in document["files"])
    whole = json.loads((tmp_path / "found" / "bench.json").read_text("utf-8"))
    assert whole == {"complete": True, "findings": document["findings"]}
    assert INCOMPLETE not in (tmp_path / "found" / "bench.html").read_text("utf-8")


@pytest.mark.parametrize("who", [SPECIFICATION, RAW])
def test_what_ours_is_compared_with_really_runs_its_jobs(who: str, cassandra_environment: dict[str, str]) -> None:
    with bench_place(cassandra_environment, 0.0, lambda text: None) as place:
        found = contender(place, who, JobLoad(DIRECT, 20, 4))
    assert found["jobs"] == 20 + (who == RAW)
    with plain_session(place.direct) as session:
        assert session.execute("SELECT job_id FROM jobs_pending_by_bucket").all() == []
        jobs = session.execute("SELECT job_id, status FROM jobs_sharded").all()
        assert [job.status for job in jobs] == ["completed"] * int(str(found["jobs"]))
        held = {row.resource_id for row in session.execute("SELECT resource_id FROM locks")}
        assert held.isdisjoint(f"job:{job.job_id}" for job in jobs)


def test_the_lock_statements_alone_leave_no_job_and_no_lock(cassandra_environment: dict[str, str]) -> None:
    with bench_place(cassandra_environment, 0.0, lambda text: None) as place:
        with plain_session(place.direct) as session:
            before = {row.resource for row in session.execute("SELECT resource FROM lock_seq")}
        found = contender(place, RAW_LOCKS, JobLoad(DIRECT, 20, 4))
    assert found["jobs"] == 21
    with plain_session(place.direct) as session:
        tokens = {row.resource for row in session.execute("SELECT resource FROM lock_seq")} - before
        held = {row.resource_id for row in session.execute("SELECT resource_id FROM locks")}
        waiting = {f"job:{row.job_id}" for row in session.execute("SELECT job_id FROM jobs_pending_by_bucket")}
    assert len(tokens) == 21
    assert tokens.isdisjoint(held | waiting)


def findings(specification: float, raw: float, headrace: float) -> list[Finding]:
    rates = {"specification": specification, "raw": raw, "headrace": headrace}
    return [{"part": "jobs", "who": who, "line": "direct", "jobs_per_s": rate} for who, rate in rates.items()]


def test_goals_are_told_as_reached_or_missed() -> None:
    (times, share) = goals(findings(100.0, 500.0, 400.0))
    assert (times["found"], times["reached"]) == (4.0, True)
    assert (share["found"], share["reached"]) == (0.8, True)
    (times, share) = goals(findings(100.0, 600.0, 399.0))
    assert (times["reached"], share["reached"]) == (False, False)
    assert "0 of 2 goals reached" in page([times, share])


def test_an_idle_worker_may_cost_so_much_and_no_more() -> None:
    for core_share, reached in ((0.049, True), (0.051, False)):
        (goal,) = goals([{"part": "idle", "core_share": core_share}])
        assert goal["reached"] is reached


@pytest.mark.parametrize(("parts", "threads"), [("locks,rain", "4"), ("locks", "many"), ("locks", "0")])
def test_what_cannot_be_measured_is_refused_by_its_option(parts: str, threads: str) -> None:
    with pytest.raises(CallerError, match=r"--(parts|threads)"):
        plan_of(parts, threads, "1000", BenchPlan())
