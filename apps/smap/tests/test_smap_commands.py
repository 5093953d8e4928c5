"""The commands of smap, as people and scripts use them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from smap_processes import READY_S_MAX, Town, town
from waiting import until

from headrace_smap.parts import open_parts
from headrace_smap.project.operations import desk_of
from headrace_smap.settings import SmapSettings

ORDER = ("create", "VinFast", "VF3", "--days", "2025-01-01..2025-01-02", "--simulated", "--name", "VF3 tháng 1")
Command = Callable[..., "subprocess.CompletedProcess[str]"]
Failing = Callable[..., tuple[int, str]]
Working = Callable[..., str]
CRAWLERS = "*=simulated:posts=5&page=5&broken=0.2"


@pytest.fixture
def place(embedded: SmapSettings, tmp_path: Path) -> Iterator[Town]:
    environment = {
        "PATH": os.environ["PATH"],
        "SMAP_HOME": str(embedded.home),
        "SMAP_CRAWLERS": CRAWLERS,
        "SMAP_ANALYSTS": "0",
    }
    with town(environment, tmp_path) as made:
        yield made


@pytest.fixture
def failing(headrace_command: Command, tmp_path: Path) -> Failing:
    """A command that does not work, in this very process: its exit code, and what it says."""

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        for name in [name for name in os.environ if name.startswith("SMAP_")]:
            del os.environ[name]
        done = headrace_command("smap", *arguments, **{"SMAP_HOME": str(tmp_path / "home"), **variables})
        return done.returncode, done.stderr

    return run


@pytest.fixture
def working(headrace_command: Command, embedded: SmapSettings) -> Working:
    """A command that works, on the same directory as the services; what it says."""

    def run(*arguments: str, **variables: str) -> str:
        for name in [name for name in os.environ if name.startswith("SMAP_")]:
            del os.environ[name]
        done = headrace_command("smap", *arguments, **{"SMAP_HOME": str(embedded.home), **variables})
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_a_project_is_led_from_its_creation_to_its_deletion(
    place: Town, working: Working, failing: Failing, tmp_path: Path
) -> None:
    project = working(*ORDER).strip()
    assert "INITIALIZING: 0 of 0" in working("progress", project)
    services = place.all("project", "collector", "analytics")

    def progress() -> dict[str, object]:
        return dict(httpx.get(f"{services[0].url}/projects/{project}/progress", trust_env=False, timeout=60).json())

    until(lambda: progress()["status"] == "DONE", "the project is DONE", 120)
    done = json.loads(working("progress", project, "--json"))
    assert done == progress()
    assert done["total"] == done["processed"] == 60
    failures = json.loads(working("failures", project, "--json"))["items"]
    assert len(failures) == done["errors"] > 0
    assert failures[0]["item"] in working("failures", project)
    for service in services:
        assert service.stop() == 0
    assert f"{len(failures)} posts are tried again" in working("retry", project)
    for name in ("posts.csv", "posts.xlsx", "posts.parquet"):
        working("export", project, str(tmp_path / name))
    assert (tmp_path / "posts.csv").read_text("utf-8-sig").count("raw/") == 60 - len(failures)
    assert (tmp_path / "posts.parquet").read_bytes()[:4] == b"PAR1"
    again = json.loads(working("rerun", project, "--json", SMAP_MODULES="nothing"))
    assert again == {"rewritten": 60 - len(failures), "kept": 0}
    listed = working("projects")
    assert project in listed
    assert "VF3 tháng 1" in listed
    working("delete", project)
    assert project not in working("projects")
    assert failing("progress", project, SMAP_HOME=str(tmp_path / "smap"))[0] == 3


def test_a_crawl_task_that_failed_is_told_with_its_reason(embedded: SmapSettings, working: Working) -> None:
    feed = "https://x.vn/[rss].xml"
    project = working("create", "VF3", "--days", "2025-01-01..2025-01-02", "--target", f"rss={feed}").strip()
    assert "nothing failed" in working("failures", project)
    asyncio.run(fail_task(embedded, project, feed))
    told = working("failures", project)
    assert feed in told
    assert "x.vn answers 404" in told


def test_no_labels_are_no_file(working: Working, tmp_path: Path) -> None:
    working(*ORDER)
    file = tmp_path / "labels.csv"
    assert "no post is uncertain: nothing is written" in working("labels", "export", "--uncertain", "--to", str(file))
    assert json.loads(working("labels", "export", "--to", str(file), "--json")) == {"file": None, "posts": 0}
    assert not file.exists()


async def fail_task(settings: SmapSettings, project: str, url: str) -> None:
    task = {"task": "t", "position": 0, "platform": "rss", "keyword": "", "url": url, "day": "", "document": ""}
    async with open_parts(settings) as parts:
        rows = [{**task, "state": "failed", "error": "x.vn answers 404"}]
        await parts.database.rows("crawl_plan", project=project, rows=rows, now=datetime(2025, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("youtube", {"platform": "youtube", "url": ""}),
        ("rss=https://x.vn/?a=b", {"platform": "rss", "url": "https://x.vn/?a=b"}),
        ("https://x.vn/?a=b", {"platform": "", "url": "https://x.vn/?a=b"}),
    ],
)
def test_a_target_is_a_platform_an_address_or_both(
    embedded: SmapSettings, working: Working, text: str, target: dict[str, str]
) -> None:
    project = working("create", "VF3", "--days", "2025-01-01..2025-01-02", "--simulated", "--target", text).strip()
    (made,) = json.loads(working("projects", "--json"))["items"]
    assert (made["id"], made["targets"]) == (project, [target])


def test_what_cannot_work_is_refused_with_words_and_a_code(failing: Failing, tmp_path: Path) -> None:
    assert failing("progress", "nobody")[0] == 3
    code, words = failing("analytics", SMAP_PREFETCH="many")
    assert (code, "SMAP_PREFETCH" in words) == (2, True)
    code, words = failing("analytics", SMAP_REDIS_URL="redis://127.0.0.1:1/0")
    assert (code, "database 0" in words) == (2, True)
    code, words = failing("insight", SMAP_REDIS_URL="redis://127.0.0.1:1/1", SMAP_WAIT_S="0")
    assert (code, "127.0.0.1:1" in words) == (5, True)
    code, words = failing("project", SMAP_HTTP_HOST="0.0.0.0")
    assert (code, "key" in words) == (2, True)
    code, words = failing("insight", SMAP_SMTP_URL="smtp://u:secret[@h", SMAP_MAIL_FROM="a@b", SMAP_MAIL_TO="c@d")
    assert (code, "SMAP_SMTP_URL" in words, "secret" in words) == (2, True, False)
    (tmp_path / "file").write_text("")
    code, words = failing("project", SMAP_HOME=str(tmp_path / "file"))
    assert (code, "SMAP_HOME" in words) == (1, True)
    code, words = failing("create", "VinFast", "--days", "2025-02-30..2025-03-01")
    assert (code, "date_range" in words or "2025-02-30" in words) == (2, True)
    code, words = failing("create", "VinFast", "--days", "2025-01-05..2025-01-02")
    assert (code, words.startswith("headrace: date_range ends ")) == (2, True)


def test_a_project_that_is_finished_is_sealed_already(working: Working, failing: Failing) -> None:
    project = working(*ORDER).strip()
    first = json.loads(working("seal", project, "--json"))
    assert (first["status"], first["total"]) == ("DONE", 0)
    for more in ((), ("--total", "5")):
        assert "it is finished already, DONE: 0 of 0 posts" in working("seal", project, *more)
        assert json.loads(working("seal", project, *more, "--json")) == first
    code, words = failing("seal", "nobody", "--total", "5")
    assert (code, "there is no project nobody" in words) == (3, True)


def test_what_cannot_be_cancelled_or_tried_again_stays_as_it_is(
    working: Working, failing: Failing, embedded: SmapSettings
) -> None:
    here = {"SMAP_HOME": str(embedded.home)}
    project = working(*ORDER).strip()
    assert working("cancel", project) == "cancelled\n"
    code, words = failing("retry", project, **here)
    assert (code, "was cancelled" in words) == (4, True)

    finished = working(*ORDER).strip()
    working("seal", finished)

    async def every_hour() -> None:
        async with open_parts(embedded) as parts:
            await desk_of(parts).recrawls.set(finished, 3_600)

    async def planned() -> bool:
        async with open_parts(embedded) as parts:
            return await desk_of(parts).recrawls.get(finished) is not None

    asyncio.run(every_hour())
    code, _ = failing("cancel", finished, **here)
    assert (code, asyncio.run(planned())) == (4, True)


@pytest.mark.parametrize("verb", ["cancel", "retry", "rerun", "seal"])
def test_a_project_that_nobody_knows_is_not_found(failing: Failing, verb: str) -> None:
    code, words = failing(verb, "nobody")
    assert (code, "there is no project nobody" in words) == (3, True)


def test_a_refused_export_leaves_the_file_as_it_was(working: Working, failing: Failing, tmp_path: Path) -> None:
    project = working(*ORDER).strip()
    kept = tmp_path / "kept.doc"
    kept.write_text("mine")
    code, _ = failing("export", project, str(kept), SMAP_HOME=str(tmp_path / "smap"))
    assert (code, kept.read_text()) == (2, "mine")
    there = tmp_path / "posts.csv"
    told = json.loads(working("export", project, str(there), "--json"))
    assert told == {"file": str(there), "bytes": there.stat().st_size}


def test_the_demo_is_checked_by_a_script_also_where_an_earlier_one_was(working: Working, tmp_path: Path) -> None:
    for _ in range(2):
        told = json.loads(working("demo", "--posts", "50", "--to", str(tmp_path / "demo"), "--json").splitlines()[-1])
        assert (told["finish_lines"], told["posts"]) == (1, told["analysed"] + told["errors"])
        assert told["dead_letters"] == told["errors"] > 0
        report = Path(told["report"]).read_text("utf-8")
        assert ("posts analysed" in report, "VinFast VF3, simulated" in report) == (True, True)


def test_up_ends_with_a_service_that_refuses_its_settings(failing: Failing) -> None:
    code, words = failing("up", SMAP_CRAWLERS="nonsense", SMAP_HTTP_PORT="0")
    assert (code, "SMAP_CRAWLERS" in words) == (2, True)
    assert failing("up", SMAP_HTTP_PORT="65535")[0] == 2


def test_up_runs_all_four_and_starts_one_again_that_was_killed(place: Town) -> None:
    up = place.start(["up"])
    up.line_with("is ready at", 4).result(READY_S_MAX)
    urls = {line.split()[1]: line.rpartition(" ")[2] for line in up.lines if "is ready at" in line}
    assert httpx.get(f"{urls['insight']}/readyz", trust_env=False, timeout=60).json()["status"] == "ready"
    (killed,) = up.below("smap", "analytics")
    os.kill(killed, signal.SIGKILL)
    up.line_with("smap analytics is ready", 2).result(READY_S_MAX)
    assert up.stop(signal.SIGINT) == 0
    assert up.below("smap", "analytics") == []


def test_services_end_with_an_up_that_was_killed(place: Town) -> None:
    up = place.start(["up"])
    up.line_with("is ready at", 4).result(READY_S_MAX)
    urls = [line.rpartition(" ")[2] for line in up.lines if "is ready at" in line]

    def answers(url: str) -> bool:
        try:
            return httpx.get(f"{url}/healthz", trust_env=False, timeout=20).is_success
        except httpx.TransportError:
            return False

    assert all(answers(url) for url in urls)
    up.kill()
    until(lambda: not any(answers(url) for url in urls), "nobody is left behind")
