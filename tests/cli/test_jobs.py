"""The life of a job on the command line, from submit to verify, with real worker processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Answer = Callable[..., Any]
WORK = ("worker", "app:flow", "--until-idle", "--hold-s", "2")


def test_a_job_is_submitted_worked_and_accounted_for(headrace_command: Command, answer: Answer) -> None:
    opened = answer("jobs", "submit", "app:flow", '"one two three"')
    assert opened["state"] == "open"
    worked = headrace_command(*WORK)
    assert worked.returncode == 0, worked.stderr

    shown = answer("jobs", "show", opened["id"])
    assert shown["state"] == "finished"
    assert {name: stage["done"] for name, stage in shown["stages"].items()} == {"split": 1, "greet": 3, "report": 1}
    assert [line["generation"] for line in shown["finish_lines"]] == [1]
    items = answer("jobs", "items", opened["id"], "--stage", "greet")
    assert [(item["key"], item["payload"], item["state"]) for item in items] == [
        (word, word, "done") for word in ("one", "two", "three")
    ]
    assert [job["id"] for job in answer("jobs", "list", "--state", "finished")] == [opened["id"]]
    counts = {"jobs": 1, "recounted": 1, "items_dropped": 0}
    assert answer("verify") == {"clean": True, "findings": [], "open": [], **counts}
    watched = headrace_command("jobs", "watch", opened["id"], "--jsonl")
    assert json.loads(watched.stdout.splitlines()[-1])["state"] == "finished"


def test_one_key_is_one_job(headrace_command: Command, answer: Answer) -> None:
    first = answer("jobs", "submit", "app:flow", '"one"', "--key", "k")
    assert answer("jobs", "submit", "app:flow", '"one"', "--key", "k")["id"] == first["id"]
    other = headrace_command("jobs", "submit", "app:flow", '"two"', "--key", "k")
    assert other.returncode == 4
    assert first["id"] in other.stderr


def test_many_items_come_from_a_file(here: Path, answer: Answer) -> None:
    (here / "many.jsonl").write_text("".join(f'"word{number}"\n' for number in range(1_200)))
    opened = answer("jobs", "submit", "app:flow", "--file", "many.jsonl")
    assert opened["stages"]["split"]["total"] == 1_200


def test_a_bad_line_of_a_file_is_named_and_opens_nothing(headrace_command: Command, here: Path, answer: Answer) -> None:
    (here / "many.jsonl").write_text('"fine"\n{\n')
    done = headrace_command("jobs", "submit", "app:flow", "--file", "many.jsonl")
    assert done.returncode == 2
    assert "line 2 of many.jsonl" in done.stderr
    assert answer("jobs", "list") == []


def test_dead_letters_are_listed_redriven_and_purged(headrace_command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"good bad"')["id"]
    headrace_command(*WORK)
    assert answer("jobs", "show", job)["state"] == "failed"
    letters = answer("dead", "list", "--rule", "words")
    assert [(letter["key"], letter["reason"], letter["payload"]) for letter in letters] == [
        ("bad", "not a word", "bad")
    ]
    assert answer("dead", "redrive", "--job", job) == {"redriven": 1}
    assert answer("dead", "redrive", "--job", job) == {"redriven": 0}
    headrace_command(*WORK)
    shown = answer("jobs", "show", job)
    assert shown["generation"] == 2
    assert [line["state"] for line in shown["finish_lines"]] == ["failed", "failed"]
    assert answer("dead", "purge", "--job", job) == {"purged": 1}
    assert answer("dead", "list") == []
    assert answer("verify", job)["clean"]


def test_one_dead_letter_is_redriven_or_purged_by_its_place(headrace_command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"bad bad bad"')["id"]
    headrace_command(*WORK)
    first, second, third = (f"{letter['stage']}/{letter['seq']}" for letter in answer("dead", "list", "--job", job))
    assert answer("dead", "redrive", "--job", job, "--item", second) == {"redriven": 1}
    assert answer("dead", "purge", "--job", job, "--item", third) == {"purged": 1}
    assert [f"{left['stage']}/{left['seq']}" for left in answer("dead", "list", "--job", job)] == [first]
    for wrong in (
        ["--item", first],
        ["--job", job, "--item", "greet"],
        ["--job", job, "--item", first, "--stage", "x"],
    ):
        done = headrace_command("dead", "redrive", *wrong)
        assert (done.returncode, "item" in done.stderr or "STAGE/SEQ" in done.stderr) == (2, True)


def test_a_job_redriven_in_part_stays_failed(headrace_command: Command, here: Path, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"good bad bad"')["id"]
    headrace_command(*WORK)
    (here / "app.py").write_text((here / "app.py").read_text().replace('== "bad"', '== "worse"'))
    assert answer("dead", "redrive", "--job", job, "--limit", "1") == {"redriven": 1}
    headrace_command(*WORK)
    shown = answer("jobs", "show", job)
    assert (shown["state"], shown["generation"]) == ("failed", 2)
    assert (shown["stages"]["greet"]["done"], shown["stages"]["greet"]["dead"]) == (2, 1)
    assert [line["stages"]["greet"]["dead"] for line in shown["finish_lines"]] == [2, 0]
    assert [found["id"] for found in answer("jobs", "list", "--state", "failed")] == [job]
    assert headrace_command("jobs", "watch", job).returncode == 1
    assert answer("verify", job)["clean"]
    assert answer("dead", "redrive", "--job", job) == {"redriven": 1}
    headrace_command(*WORK)
    assert answer("jobs", "show", job)["state"] == "finished"


def test_a_job_is_paused_resumed_and_cancelled(headrace_command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"one"')["id"]
    assert answer("jobs", "pause", job) == {"job": job, "changed": True}
    assert answer("jobs", "show", job)["paused"]
    assert answer("jobs", "resume", job) == {"job": job, "changed": True}
    late = headrace_command("jobs", "watch", job, "--timeout-s", "0.2")
    assert late.returncode == 6
    assert job in late.stderr
    still = answer("verify")["open"]
    assert still[0]["job"] == job
    assert "split" in still[0]["why"][0]
    assert answer("jobs", "cancel", job) == {"job": job, "changed": True}
    assert answer("jobs", "cancel", job) == {"job": job, "changed": False}
    assert answer("jobs", "show", job)["state"] == "cancelled"
    assert headrace_command("jobs", "cancel", "nobody").returncode == 3


def test_the_doctor_names_work_that_nobody_wants(headrace_command: Command, here: Path, answer: Answer) -> None:
    (here / "other.py").write_text((here / "app.py").read_text().replace('"greet")\n\n', '"other")\n\n', 1))
    job = answer("jobs", "submit", "app:flow", '"one"')["id"]
    checks = answer("doctor", "other:flow")["checks"]
    unwanted = [check["found"] for check in checks if check["name"] == "handlers"]
    assert any(job in found and "greet/split" in found for found in unwanted)
    assert all(
        check["state"] == "ok" for check in answer("doctor", "app:flow")["checks"] if check["name"] == "handlers"
    )


def test_the_doctor_makes_no_store(here: Path, answer: Answer) -> None:
    assert answer("doctor")["checks"][-1]["state"] == "warning"
    assert not (here / "headrace.db").exists()


def test_a_store_that_cannot_be_opened_is_bad(headrace_command: Command, here: Path) -> None:
    (here / "notes.db").write_text("this is not a database, it is a text of some length\n" * 100)
    done = headrace_command("doctor", "--store", "notes.db")
    assert done.returncode == 1
    assert "notes.db" in done.stdout


RAISING = """
import headrace

flow = headrace.Flow("read")


@flow.stage(retry=headrace.backoff(2, first_s=0.0))
async def read(number: int) -> None:
    try:
        [][number]
    except IndexError as error:
        raise ValueError(f"[bold] no page {number} at https://me:hunter2@host/pages") from error
"""


def test_a_dead_letter_is_shown_with_its_traceback(headrace_command: Command, here: Path, answer: Answer) -> None:
    (here / "app.py").write_text(RAISING)
    job = answer("jobs", "submit", "app:flow", "7")["id"]
    worked = headrace_command(*WORK)
    assert [line.split()[1:3] for line in worked.stderr.splitlines() if "event=item." in line] == [
        ["level=warning", "event=item.failed"],
        ["level=error", "event=item.dead"],
    ]
    assert "    IndexError: list index out of range" in worked.stderr
    [letter] = answer("dead", "show", job)
    place = f"read/{letter['seq']}"
    assert answer("dead", "show", job, place) == [letter]
    assert "IndexError: list index out of range" in letter["traceback"]
    assert "ValueError: [bold] no page 7 at https://me:***@host/pages" in letter["traceback"]
    page = headrace_command("dead", "show", job, place).stdout
    assert letter["traceback"] in page
    assert "ValueError: [bold] no page 7" in " ".join(headrace_command("dead", "list").stdout.split())
    assert "hunter2" not in page + worked.stderr
    assert headrace_command("dead", "show", job, "read/1").returncode == 3
    assert headrace_command("dead", "show", job, "read").returncode == 2


def test_people_get_tables_with_whole_ids(headrace_command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"good bad"', "--key", "k")["id"]
    headrace_command(*WORK)
    for line in (["jobs", "list"], ["jobs", "show", job], ["dead", "list"]):
        told = headrace_command(*line)
        assert told.returncode == 0
        assert job in told.stdout, line
    items = headrace_command("jobs", "items", job).stdout
    assert [word for word in ("good", "bad", "done", "dead") if word not in items] == []
    assert "1 jobs recounted: clean" in headrace_command("verify").stdout


def test_a_schema_is_applied_and_told(headrace_command: Command, answer: Answer) -> None:
    before = headrace_command("migrate", "status", "--json")
    assert before.returncode == 1
    assert json.loads(before.stdout)["schema"] == 0
    assert answer("migrate", "up")["applied"]
    assert answer("migrate", "up") == {"applied": []}
    assert answer("migrate", "status")["current"]
    assert "CREATE TABLE" in "".join(part["sql"] for part in answer("migrate", "sql"))


async def retain(path: Path) -> None:
    """Let workers' housekeeping come now."""
    async with headrace.connect(str(path)) as engine:
        assert await engine.store.retain() > 0


def test_items_that_retention_dropped_are_not_called_clean(
    headrace_command: Command, here: Path, answer: Answer
) -> None:
    answer("jobs", "submit", "app:flow", '"one two"', "--keep-s", "0")
    kept = answer("jobs", "submit", "app:flow", '"three"')["id"]
    headrace_command(*WORK)
    asyncio.run(retain(here / "headrace.db"))
    told = headrace_command("verify").stdout
    assert "1 jobs recounted: clean" in told
    assert "4 items of 1 jobs could not be recounted: retention dropped them" in told
    document = answer("verify")
    assert (document["jobs"], document["recounted"], document["items_dropped"]) == (2, 1, 4)
    assert answer("verify", kept)["items_dropped"] == 0


def test_a_wait_that_ends_too_early_says_for_what(headrace_command: Command, answer: Answer) -> None:
    late = headrace_command("jobs", "submit", "app:flow", '"one"', "--wait-s", "0.05")
    (job,) = answer("jobs", "list")
    assert (late.returncode, late.stdout) == (6, f"{job['id']}\n")
    assert f"headrace: job {job['id']} is still open after 0.05 s" in late.stderr
    document = headrace_command("jobs", "submit", "app:flow", '"one"', "--wait-s", "0.05", "--json")
    assert document.returncode == 6
    assert json.loads(document.stdout)["state"] == "open"


def test_a_short_id_is_taken_wherever_an_id_is_asked_for(headrace_command: Command, answer: Answer) -> None:
    job = answer("jobs", "submit", "app:flow", '"good bad"')["id"]
    short = job[-8:]
    headrace_command(*WORK)
    assert answer("jobs", "show", short)["id"] == job
    assert len(answer("jobs", "items", short)) == 4
    assert answer("verify", short)["jobs"] == 1
    assert [letter["job"] for letter in answer("dead", "list", "--job", short)] == [job]
    assert answer("dead", "show", short)[0]["job"] == job
    assert answer("jobs", "cancel", short) == {"job": job, "changed": False}
    assert answer("dead", "redrive", "--job", short) == {"redriven": 1}
    answer("jobs", "submit", "app:flow", '"one"')
    assert answer("jobs", "list", "--before", job) == []
    several = headrace_command("jobs", "show", job[:4])
    assert several.returncode == 2
    assert job in several.stderr
