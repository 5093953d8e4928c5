"""People are told of late symbols, once for each symbol and day."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from silver_desk import bar, consume, put

from headrace.errors import CallerError, OperatorError
from headrace.testing import HttpAnswer, HttpReceiver, HttpRequest
from headrace_silver.quality.late_alerts import AlertSettings, Deliver, LateAlert, UndeliveredAlert, alert
from headrace_silver.quality.late_symbols import late
from headrace_silver.stores.silver_store import SilverStore, open_store

Command = Callable[..., "subprocess.CompletedProcess[str]"]
MORNING = datetime(2025, 3, 14, 1, 0, tzinfo=UTC)
EVENING = datetime(2025, 3, 14, 9, 0, tzinfo=UTC)
APPEND = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
TELL_AND_KILL_ONCE = """
import os, signal, sys
with open(sys.argv[1], "a") as told:
    told.write(os.environ["SILVER_ALERT_ID"] + "\\n")
if not os.path.exists(sys.argv[2]):
    open(sys.argv[2], "w").close()
    os.kill(os.getppid(), signal.SIGKILL)
"""


@pytest.fixture
def store(silver_store: SilverStore) -> SilverStore:
    """AAA has its bar of the 13th, BBB and CCC have not."""
    days = {"AAA": "2025-03-13", "BBB": "2025-03-12", "CCC": "2025-03-07"}
    put(silver_store, [bar(symbol, day) for symbol, day in days.items()])
    consume(silver_store)
    return silver_store


@pytest.fixture
def answers() -> list[int]:
    """What the webhook answers, one after another."""
    return []


@pytest.fixture
def webhook(answers: list[int]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a webhook, and what it got."""
    got: list[dict[str, Any]] = []

    def answer(request: HttpRequest) -> HttpAnswer:
        got.append(request.document)
        assert request.headers["webhook-id"] == got[-1]["id"]
        return HttpAnswer(answers.pop(0) if answers else 204, headers={"Location": "/elsewhere"})

    with HttpReceiver(answer) as receiver:
        yield f"{receiver.url}/hook", got


def quiet(told: LateAlert) -> None:
    """A delivery that succeeds."""


def into(said: list[str]) -> dict[str, Deliver]:
    """A channel that keeps the words."""
    return {"command": lambda told: said.append(told.text)}


def test_each_symbol_is_told_once_a_day(store: SilverStore, webhook: tuple[str, list[dict[str, Any]]]) -> None:
    url, got = webhook
    channels = AlertSettings(late_webhook=url).channels()
    assert alert(store, late(store, MORNING), channels) == ["BBB", "CCC"]
    assert alert(store, late(store, MORNING), channels) == []
    assert len(got) == 1
    assert got[0]["text"].startswith("silver: 2 of 3 symbols lack a bar for 2025-03-13: CCC (last bar 2025-03-07), BBB")
    assert [entry["symbol"] for entry in got[0]["late"]] == ["CCC", "BBB"]
    # The next day is another one.
    assert alert(store, late(store, EVENING), channels) == ["AAA", "BBB", "CCC"]


def test_only_what_is_new_is_told(store: SilverStore) -> None:
    said: list[str] = []
    assert alert(store, late(store, MORNING, days=4), {"command": quiet}) == ["CCC"]
    assert alert(store, late(store, MORNING), into(said)) == ["BBB"]
    assert "BBB" in said[0]
    assert "CCC" not in said[0]


@pytest.mark.parametrize("answer", [500, 404, 302])
def test_what_was_not_delivered_is_told_by_the_next_run(
    store: SilverStore, webhook: tuple[str, list[dict[str, Any]]], answers: list[int], answer: int
) -> None:
    url, got = webhook
    answers.append(answer)
    channels = AlertSettings(late_webhook=url).channels()
    with pytest.raises(OperatorError, match=f"it answers {answer}") as failed:
        alert(store, late(store, MORNING), channels)
    assert url not in str(failed.value)
    assert alert(store, late(store, MORNING), channels) == ["BBB", "CCC"]
    assert len(got) == 2
    # A receiver can tell a repeat from an alert of its own.
    assert got[0]["id"] == got[1]["id"]


def test_a_channel_that_fails_has_the_other_repeat_nothing(
    store: SilverStore, webhook: tuple[str, list[dict[str, Any]]], answers: list[int], tmp_path: Path
) -> None:
    url, got = webhook
    answers += [500, 500]
    told = tmp_path / "told.txt"
    settings = AlertSettings(shlex.join([sys.executable, "-c", APPEND, str(told)]), url)
    for _ in range(2):
        with pytest.raises(OperatorError, match="it answers 500"):
            alert(store, late(store, MORNING), settings.channels())
    assert alert(store, late(store, MORNING), settings.channels()) == ["BBB", "CCC"]
    assert alert(store, late(store, MORNING), settings.channels()) == []
    assert told.read_text().count("symbols lack a bar") == 1
    assert len(got) == 3


def test_a_channel_is_tried_although_the_one_before_failed(
    store: SilverStore, webhook: tuple[str, list[dict[str, Any]]]
) -> None:
    url, got = webhook
    for _ in range(2):
        with pytest.raises(OperatorError, match="No such file"):
            alert(store, late(store, MORNING), AlertSettings("/nowhere/mail", url).channels())
    assert len(got) == 1


def test_a_command_gets_the_text(store: SilverStore, tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    channels = AlertSettings(late_command=shlex.join([sys.executable, "-c", APPEND, str(told)])).channels()
    alert(store, late(store, MORNING), channels)
    alert(store, late(store, MORNING), channels)
    assert told.read_text().count("symbols lack a bar for 2025-03-13") == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ([sys.executable, "-c", "import sys; sys.exit('no mail today')"], "exit code 1, no mail today"),
        (["/nowhere/mail"], "No such file"),
    ],
)
def test_a_command_that_fails_has_told_nobody(store: SilverStore, line: list[str], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        alert(store, late(store, MORNING), AlertSettings(late_command=shlex.join(line)).channels())
    assert alert(store, late(store, MORNING), {"command": quiet}) == ["BBB", "CCC"]


def test_a_command_may_say_what_is_no_text(store: SilverStore) -> None:
    line = shlex.join([sys.executable, "-c", "import sys; sys.stdin.read(); sys.stdout.buffer.write(b'\\xff')"])
    assert alert(store, late(store, EVENING), AlertSettings(late_command=line).channels()) == ["AAA", "BBB", "CCC"]


def test_all_channels_that_failed_are_named(
    store: SilverStore, webhook: tuple[str, list[Any]], answers: list[int]
) -> None:
    answers.append(500)
    channels = AlertSettings(late_command="false", late_webhook=webhook[0]).channels()
    with pytest.raises(
        UndeliveredAlert, match=r"SILVER_LATE_COMMAND: exit code 1; .*SILVER_LATE_WEBHOOK: it answers 500"
    ):
        alert(store, late(store, EVENING), channels)


def test_of_two_runs_at_once_one_tells(store: SilverStore, silver_url: str) -> None:
    start, said = threading.Barrier(2), []

    def one_of_two() -> None:
        own = open_store(silver_url)
        start.wait()
        alert(own, late(own, MORNING), into(said))
        own.close()

    both = [threading.Thread(target=one_of_two) for _ in range(2)]
    for each in both:
        each.start()
    for each in both:
        each.join()
    assert len(said) == 1


def test_a_run_killed_after_its_delivery_is_repeated_once_under_the_same_id(
    headrace_process: Command, silver_url: str, silver_store: SilverStore, tmp_path: Path
) -> None:
    told, marker = tmp_path / "told.txt", tmp_path / "killed"
    command = shlex.join([sys.executable, "-c", TELL_AND_KILL_ONCE, str(told), str(marker)])
    line = ("silver", "late", "--alert", "--store", silver_url)
    codes = [headrace_process(*line, SILVER_LATE_COMMAND=command).returncode for _ in range(3)]
    assert codes == [-signal.SIGKILL, 1, 1]
    first, second = told.read_text().splitlines()
    assert first == second
    assert first.startswith("late-")


def test_no_bar_at_all_is_told_once_too(silver_store: SilverStore) -> None:
    said: list[str] = []
    for _ in range(2):
        alert(silver_store, late(silver_store, MORNING), into(said))
    assert said == ["silver: there is no bar of any symbol that still trades (asked for 2025-03-13)."]


def test_old_alerts_are_forgotten(store: SilverStore) -> None:
    alert(store, late(store, MORNING), {"command": quiet})
    later = MORNING.replace(year=2027)
    alert(store, late(store, later), {"command": quiet})
    assert alert(store, late(store, MORNING), {"command": quiet}) == ["BBB", "CCC"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"late_webhook": "hooks.example"}, "SILVER_LATE_WEBHOOK"), ({"late_command": "mail 'x"}, "SILVER_LATE_COMMAND")],
)
def test_a_channel_that_cannot_work_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(CallerError, match=words):
        AlertSettings(**settings)


def test_cron_is_told_by_the_exit_code_whether_or_not_people_were(
    headrace_command: Command, silver_url: str, silver_store: SilverStore, tmp_path: Path
) -> None:
    command = shlex.join([sys.executable, "-c", APPEND, str(tmp_path / "told.txt")])
    line = ("--json", "silver", "late", "--alert", "--store", silver_url)
    first, second = (headrace_command(*line, SILVER_LATE_COMMAND=command) for _ in range(2))
    assert (first.returncode, second.returncode) == (1, 1)
    assert [json.loads(done.stdout)["alerted"] for done in (first, second)] == [[""], []]
    nobody = headrace_command(*line, SILVER_LATE_COMMAND="")
    assert nobody.returncode == 2
    assert "SILVER_LATE_COMMAND" in nobody.stderr
