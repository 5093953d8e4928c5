"""Schedules on the command line, with a real worker that fires."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from rich.console import Console
from waiting import until

from headrace.cli.schedule_views import print_schedules
from headrace.core.schedules import FireOutcome, FireView, Origin, Schedule, ScheduleView

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Started = Callable[..., "subprocess.Popen[str]"]
Answer = Callable[..., Any]
YEARLY = ("schedules", "add", "yearly", "greet", "0 0 1 1 *")


def test_a_schedule_is_added_listed_paused_resumed_and_removed(headrace_command: Command, answer: Answer) -> None:
    added = headrace_command("schedules", "add", "nightly", "greet", "0 3 * * *", "--tz", "Asia/Ho_Chi_Minh")
    assert added.returncode == 0, added.stderr
    assert "no running worker has the flow 'greet'" in added.stderr
    (listed,) = answer("schedules", "list")
    assert (listed["name"], listed["flow"], listed["state"], listed["origin"]) == (
        "nightly",
        "greet",
        "no worker",
        "added",
    )
    assert [datetime.fromisoformat(at).hour for at in listed["next_at"]] == [20, 20, 20]
    assert answer("schedules", "pause", "nightly") == {"schedule": "nightly", "changed": True}
    assert answer("schedules", "pause", "nightly") == {"schedule": "nightly", "changed": False}
    assert answer("schedules", "list")[0]["next_at"] == []
    assert answer("schedules", "resume", "nightly")["changed"]
    assert answer("schedules", "remove", "nightly")["changed"]
    assert answer("schedules", "list") == []


def test_a_schedule_says_everything_it_was_told(answer: Answer) -> None:
    words = (
        "--misfire",
        "all",
        "--overlap",
        "allow",
        "--jitter-s",
        "2.5",
        "--stage",
        "split",
        "--payload",
        '"one two"',
    )
    shown = answer(*YEARLY, *words, "--tenant", "acme")
    told = {key: shown[key] for key in ("misfire", "overlap", "jitter_s", "stage", "payload", "tenant", "tz")}
    assert told == {
        "misfire": "all",
        "overlap": "allow",
        "jitter_s": 2.5,
        "stage": "split",
        "payload": "one two",
        "tenant": "acme",
        "tz": "UTC",
    }


def test_a_flow_may_be_named_as_for_a_worker(answer: Answer) -> None:
    """A schedule of the flow 'app:flow' would wait for ever for a worker of app:flow, which has the flow 'greet'."""
    shown = answer("schedules", "add", "yearly", "app:flow", "0 0 1 1 *", "--payload", '"one two"')
    assert (shown["flow"], shown["payload"]) == ("greet", "one two")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("schedules", "add", "a", "greet", "* * *"), 2, "cron has 5 fields"),
        (("schedules", "add", "a", "app:nothing", "* * * * *"), 2, "flows there: flow"),
        (("schedules", "add", "a", "app:flow", "* * * * *", "--payload", "7"), 2, "expected str"),
        ((*YEARLY, "--tz", "Asia/Atlantis"), 2, "no time zone"),
        ((*YEARLY, "--payload", "{"), 2, "--payload is not JSON"),
        (("schedules", "pause", "nobody"), 3, "headrace schedules list"),
    ],
)
def test_a_refusal_says_what_to_do(
    headrace_command: Command, answer: Answer, words: tuple[str, ...], code: int, said: str
) -> None:
    answer("schedules", "add", "other", "greet", "PT1H")
    refused = headrace_command(*words)
    assert (refused.returncode, said in refused.stderr) == (code, True), refused.stderr


def test_a_worker_makes_the_fire_that_an_operator_asked_for(started: Started, answer: Answer) -> None:
    answer(*YEARLY, "--payload", '"one two"')
    assert answer("schedules", "run", "yearly") == {"schedule": "yearly", "changed": True}
    started("worker", "app:flow", "--hold-s", "2")

    def finished() -> Any:
        (view,) = answer("schedules", "list")
        job = answer("jobs", "show", view["fires"][0]["job"]) if view["fires"] else {"state": "open"}
        return (view, job) if job["state"] == "finished" else None

    view, job = until(finished, "the job of the fire ends", 30.0)
    (fire,) = view["fires"]
    assert (view["state"], fire["outcome"], fire["manual"]) == ("active", "fired", True)
    assert job["key"] == f"yearly@{fire['moment']}"
    assert job["stages"]["greet"]["done"] == 2


def test_doctor_names_a_schedule_that_nobody_fires(started: Started, answer: Answer) -> None:
    def told() -> list[dict[str, str]]:
        return [check for check in answer("doctor")["checks"] if check["name"] == "schedules"]

    answer(*YEARLY)
    (check,) = told()
    assert check["state"] == "warning"
    assert "no running worker has the flow 'greet' of yearly" in check["found"]
    started("worker", "app:flow", "--hold-s", "2")
    until(lambda: told()[0]["state"] == "ok", "a worker has the flow", 30.0)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_table_keeps_its_words_whole(width: int) -> None:
    fire = FireView(1_794_830_400_000, FireOutcome.OVERLAPPED, "", "", False, 0.0)
    fired = FireView(1_794_830_400_000, FireOutcome.FIRED, "01a1e4f7-f5f2-7402-8958-4f311c65a24d", "", False, 0.0)
    schedules = [Schedule("nightly-digest", "digest", "*/15 8-18 * * 1-5", "Asia/Ho_Chi_Minh")] * 2
    views = [
        ScheduleView(schedule, Origin.ADDED, False, attended, 1_794_830_400_000, 0, None, 0, (last,))
        for schedule, attended, last in zip(schedules, (True, False), (fire, fired), strict=True)
    ]
    told = io.StringIO()
    print_schedules(Console(file=told, width=width), views)
    lines = told.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    for word in ("nightly-digest", "*/15 8-18 * * 1-5", "no worker", "overlapped", "65a24d", "08:00", "+07"):
        assert any(word in line for line in lines), word
