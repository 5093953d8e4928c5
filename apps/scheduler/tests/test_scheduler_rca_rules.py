"""Rules and evidence by themselves: what each sign is worth, and what is too little."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from headrace.errors import CallerError
from headrace_scheduler.jobs.values import JobRun
from headrace_scheduler.rca.evidence import Audited, Evidence, LogEvent, MetricSeries, SeenDeath, SeenJob, SeenLock
from headrace_scheduler.rca.log_files import log_event, read_log
from headrace_scheduler.rca.rca_page import page
from headrace_scheduler.rca.rca_report import blocks, markdown, report_on
from headrace_scheduler.rca.root_causes import Cause, find_causes
from headrace_scheduler.rca.timeline import timeline

SINCE = datetime(2026, 1, 31, 9, 0, tzinfo=UTC)
UNTIL = SINCE + timedelta(minutes=30)
INSTANCE, GONE = "10.0.0.7:8080", "was not there for Prometheus at 09:00:10"


def at(seconds: float) -> datetime:
    return SINCE + timedelta(seconds=seconds)


def run(number: int, began_s: float, ended_s: float | None, status: str = "completed", token: int = 1) -> JobRun:
    ended = None if ended_s is None else at(ended_s)
    return JobRun(UUID(int=number), UUID(int=1_000 * number + token), f"w{token}", token, at(began_s), ended, status)


def lines(count: int, event: str, **fields: str) -> tuple[LogEvent, ...]:
    return tuple(LogEvent(at(number), "warning", event, fields) for number in range(count))


def named(**evidence: object) -> list[Cause]:
    return [found.cause for found in find_causes(Evidence(SINCE, UNTIL, **evidence))]  # type: ignore[arg-type]


def series(name: str, *values: float) -> MetricSeries:
    points = tuple((at(number * 10), value) for number, value in enumerate(values))
    return MetricSeries(name, {"instance": INSTANCE}, points)


def test_calls_that_fail_now_and_then_are_no_outage() -> None:
    assert named(events=lines(2, "source.failing", error="Unreachable")) == []
    assert named(events=lines(3, "source.failing", error="Unreachable")) == [Cause.NODE_DOWN]
    assert named(events=lines(3, "http.not_ready", check="tables")) == [Cause.NODE_DOWN]
    assert named(events=lines(3, "http.not_ready", check="poller")) == []
    assert named(events=lines(30, "source.failing", error="CallerError")) == []


def test_a_run_without_an_end_is_lost_once_its_lock_is_over() -> None:
    lock = SeenLock(f"job:{UUID(int=1)}", "w1", 1, True)
    assert named(runs=(run(1, 0, None, "running"),)) == []
    assert named(runs=(run(1, 0, None, "running"),), locks=(lock,)) == [Cause.WORKER_DOWN]
    assert named(runs=(run(1, 0, None, "running"), run(1, 60, 61, token=2))) == [Cause.WORKER_DOWN]
    assert named(runs=(run(1, 0, 50, "lost"),)) == [Cause.WORKER_DOWN]


def test_a_worker_and_a_node_that_are_down_are_told_apart() -> None:
    one, same, other = run(1, 0, 50, "lost"), run(2, 5, 55, "lost"), run(3, 5, 60, "lost", token=2)
    assert named(runs=(one, same)) == [Cause.WORKER_DOWN]
    assert named(runs=(one, same, other)) == [Cause.NODE_DOWN], "several workers at once"
    assert named(runs=(one, run(3, 500, 560, "lost", token=2))) == [Cause.WORKER_DOWN], "one after another"
    assert named(runs=(one, same, other), events=lines(1, "x")) == [Cause.WORKER_DOWN], "the tables answered"
    away = lines(3, "source.failing", error="Unreachable")
    assert named(runs=(one, same), events=away) == [Cause.NODE_DOWN]
    assert named(runs=(run(1, 600, 650, "lost"),), events=away) == [Cause.NODE_DOWN, Cause.WORKER_DOWN]
    (found,) = find_causes(Evidence(SINCE, UNTIL, runs=(one,), series=(series("up", 1.0, 0.0),)))
    assert found.signs == ("w1 began 1 run that it never ended, and its locks are over", f"{INSTANCE} {GONE}")


def test_a_few_failures_among_many_runs_are_no_cause() -> None:
    good = tuple(run(number, number, number + 1) for number in range(1, 31))
    bad = tuple(run(number, number, number + 1, "failed") for number in range(31, 40))
    assert named(runs=bad[:4]) == []
    assert named(runs=good + bad[:6]) == []
    assert named(runs=good + bad) == [Cause.HANDLER_FAILING]


def test_the_class_of_most_failures_is_the_subject() -> None:
    bad = tuple(run(number, number, number + 1, "failed") for number in range(1, 10))
    dead = (
        SeenDeath(UUID(int=1), at(3), "ConnectError", "http"),
        SeenDeath(UUID(int=2), at(4), "ConnectError", "http"),
    )
    (found,) = find_causes(Evidence(SINCE, UNTIL, runs=bad, dead=dead))
    assert (found.subject, found.began_at) == ("ConnectError", at(1))
    assert "2 dead jobs are of the type http" in found.signs


def test_contention_is_seen_in_metrics_and_named_by_the_lock_of_a_job_that_waits() -> None:
    waits, runs = SeenJob(UUID(int=7), at(0), "pending"), SeenJob(UUID(int=8), at(0), "running")
    locks = tuple(SeenLock(f"job:{UUID(int=number)}", f"w{number}", 1, False) for number in (7, 8))
    refused = series("refused", 0.0, 0.5, 0.5)
    found = find_causes(Evidence(SINCE, UNTIL, jobs=(waits, runs), locks=locks, series=(refused,)))
    assert [(each.cause, each.subject) for each in found] == [(Cause.HOT_RESOURCE, f"job:{UUID(int=7)}")]
    # Workers that race for jobs are refused as well, and a lock alone is a job that runs.
    assert named(jobs=(runs,), locks=locks, series=(refused,)) == []
    assert named(jobs=(waits,), locks=locks, series=(series("refused", 0.0, 0.001),)) == []
    assert named(jobs=(waits,), locks=(replace(locks[0], expired=True),), series=(refused,)) == [Cause.NO_WORKER]


def test_a_resource_that_is_missed_over_and_over_is_hot_and_races_are_not() -> None:
    assert named(events=lines(3, "run.missed", resource="job:7")) == []
    assert named(events=lines(4, "run.missed", resource="job:7")) == [Cause.HOT_RESOURCE]
    races = tuple(LogEvent(at(n), "info", "run.missed", {"resource": f"job:{n}"}) for n in range(100))
    assert named(events=races + lines(10, "run.missed", resource="job:7")) == []


def test_a_clock_is_judged_by_its_series_and_by_refusals() -> None:
    assert named(series=(series("clock_skew", 0.0, 0.2, -0.24),)) == []
    assert named(series=(series("clock_skew", 0.0, -3.5),)) == [Cause.CLOCK_SKEW]
    assert named(events=lines(1, "worker.gave_up", error="ClockSkewed")) == [Cause.CLOCK_SKEW]
    assert named(runs=(run(1, 100, 101, token=1), run(1, 99.9, 102, token=2))) == []
    assert named(runs=(run(1, 100, 101, token=1), run(1, 90, 102, token=2))) == [Cause.CLOCK_SKEW]


def test_workers_at_their_cap_are_saturated_and_idle_ones_that_are_late_are_not() -> None:
    assert named(series=(series("in_progress_share", *[1.0] * 10),)) == [Cause.SATURATION]
    assert named(series=(series("in_progress_share", *[1.0] * 4),)) == []
    assert named(series=(series("in_progress_share", *[1.0] * 7, *[0.2] * 3),)) == []
    jobs = tuple(SeenJob(UUID(int=number), at(0), "completed") for number in range(1, 21))
    busy = tuple(run(number, number * 10, number * 10 + 10) for number in range(1, 21))
    idle = tuple(run(number, number * 10, number * 10 + 1) for number in range(1, 21))
    assert named(jobs=jobs, runs=busy) == [Cause.SATURATION]
    assert named(jobs=jobs, runs=idle) == []


def test_jobs_that_are_due_and_that_nobody_begins_are_told() -> None:
    waits = tuple(SeenJob(UUID(int=number), at(600 + number), "pending") for number in (1, 2))
    (found,) = find_causes(Evidence(SINCE, UNTIL, jobs=waits, runs=(run(3, 100, 101),)))
    assert (found.cause, found.began_at) == (Cause.NO_WORKER, at(601))
    assert found.signs == ("2 jobs due since 09:10:01 wait, and nothing has begun since",)
    assert named(jobs=waits[:1]) == [Cause.NO_WORKER], "one is enough"
    assert named(jobs=waits, runs=(run(3, 700, 701),)) == [], "somebody looks for jobs"
    assert named(jobs=waits[:1], runs=(run(1, 500, 501, "failed"),)) == [], "it waits for its next attempt"
    held = SeenLock(f"job:{UUID(int=9)}", "w9", 1, False)
    assert named(jobs=waits, locks=(held,)) == [], "a long job runs alone"
    assert named(jobs=waits, locks=(SeenLock("scheduler:reconciler", "r", 1, False),)) == [Cause.NO_WORKER]
    assert named(jobs=(SeenJob(UUID(int=1), UNTIL - timedelta(seconds=59), "pending"),)) == [], "it may be found yet"
    assert named(jobs=(SeenJob(UUID(int=1), at(0), "completed"), SeenJob(UUID(int=2), at(0), "cancelled"))) == []


def test_the_root_comes_before_what_it_explains() -> None:
    found = named(
        series=(series("clock_skew", 9.0), series("in_progress_share", *[1.0] * 10)),
        events=lines(20, "run.missed", resource="job:7") + lines(3, "source.failing", error="Unreachable"),
        jobs=(SeenJob(UUID(int=99), at(1_000), "pending"),),
        runs=(run(1, 600, 650, "lost"), *(run(number, number, number + 1, "failed") for number in range(2, 12))),
    )
    assert found == list(Cause)


def test_what_repeats_is_one_entry_of_the_timeline() -> None:
    audited = (Audited(at(700), "lock.force_release", "job:7"), Audited(at(-700), "lock.force_release", "job:8"))
    evidence = Evidence(SINCE, UNTIL, events=lines(20, "source.failing", error="Busy"), audited=audited)
    found = timeline(evidence, find_causes(evidence))
    assert [(entry.kind, entry.count) for entry in found] == [("log", 20), ("cause", 1), ("audit", 1)]


def test_a_name_with_markup_in_it_stays_a_name() -> None:
    events = lines(10, "run.missed", resource="<script>alert(1)</script>")
    report = report_on(Evidence(SINCE, UNTIL, events=events, series=(series("lwt_p99", 0.2, float("nan")),)))
    assert "<script>alert" not in page(report)
    assert "0.2" in markdown(report)
    assert blocks((0.0, 1.0, 2.0)) == "▁▅█"


def test_of_a_log_line_only_words_are_kept() -> None:
    line = 'timestamp=2026-01-31T09:00:01Z level=warning event=source.failing call=poll error=Busy detail="key s3cret"'
    event = log_event(line)
    assert event is not None
    assert (event.event, event.level, event.at) == ("source.failing", "warning", at(1))
    assert dict(event.fields) == {"call": "poll", "error": "Busy"}
    sentence = log_event('timestamp=2026-01-31T09:00:01Z event=item.dead reason="no card 4111" error_class=Refused')
    assert sentence is not None
    assert dict(sentence.fields) == {"error_class": "Refused"}
    for other in ("Traceback (most recent call last):", "    timestamp=x", "timestamp=yesterday event=x", ""):
        assert log_event(other) is None


def test_lines_outside_the_time_and_files_that_are_not_there(tmp_path: Path) -> None:
    log = tmp_path / "all.log"
    moments = ("08:59:59", "09:00:00", "09:29:59", "09:30:00")
    log.write_text("".join(f"timestamp=2026-01-31T{moment}Z event=x\n" for moment in moments))
    assert [event.at for event in read_log(log, SINCE, UNTIL)] == [at(0), at(1_799)]
    with pytest.raises(CallerError, match=r"none\.log cannot be read"):
        list(read_log(tmp_path / "none.log", SINCE, UNTIL))
