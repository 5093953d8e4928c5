"""How commands answer and fail: quick where it matters, one document, exit codes, words that help."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.app import COMMANDS, build
from headrace.cli.apps import installed

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_version_answers_before_anything_heavy_is_imported() -> None:
    program = "import sys; sys.argv = ['headrace', '--version']; import headrace.__main__ as door; door.main()"
    check = "; assert not {'typer', 'rich', 'asyncio', 'apsw'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("headrace ")


def test_a_command_logs_without_what_draws_tracebacks(tmp_path: Path) -> None:
    line = [sys.executable, "-X", "importtime", "-m", "headrace", "jobs", "list"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False)
    imported = {told.rpartition("|")[2].strip() for told in done.stderr.splitlines() if told.startswith("import time:")}
    assert "structlog.dev" in imported
    assert not {"rich.traceback", "pygments.lexer"} & imported
    assert "rich.table" in imported, "what a command shows is still drawn by it"


def test_help_imports_no_command(headrace_command: Command) -> None:
    program = "import sys; from headrace.cli.app import run; run(['--help'])"
    check = "; assert not {'apsw', 'headrace.wiring', 'headrace.cli.jobs'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program + check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name in COMMANDS:
        assert name in done.stdout


def test_the_list_of_commands_says_what_each_command_says_of_itself() -> None:
    tree = build(None)
    said = {command.callback.__name__: (command.callback.__doc__ or "") for command in tree.registered_commands}
    said |= {
        str(group.typer_instance.info.name): str(group.typer_instance.info.help) for group in tree.registered_groups
    }
    apps = {app.name: app.sentence for app in installed(COMMANDS)}
    assert {name: text.splitlines()[0] for name, text in said.items()} == {**COMMANDS, **apps}


def groups(tree: typer.Typer, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that lead to every group of commands, those of applications too."""
    yield path
    for group in tree.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        yield from groups(inner, (*path, str(inner.info.name)))


@pytest.mark.parametrize("path", list(groups(build(None))), ids=" ".join)
def test_no_sentence_of_a_list_of_commands_is_cut(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(build(None), [*path, "--help"], prog_name="headrace", env={"COLUMNS": "80"})
    usage = f"Usage: {' '.join(('headrace', *path))} [OPTIONS] COMMAND [ARGS]..."
    assert [line for line in done.output.splitlines() if line.endswith("...")] == [usage]
    assert max(len(line) for line in done.output.splitlines()) <= 80


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["jobs", "show", "nobody"], 3, ["there is no store", "--store"]),
        (["bogus"], 2, ["bogus", "headrace --help"]),
        (["jobs", "list", "--state", "weird"], 2, ["--state", "open"]),
        (["jobs", "list", "--store", "redis://h"], 2, ["redis://", "sqlite:///"]),
        (["jobs", "list", "--store", "sqlite://host/x"], 2, ["names a host"]),
        (["worker", "app:flow", "--store", "sqlite://"], 2, ["memory", "name a file"]),
        (["worker", "app:flow", "--processes", "0"], 2, ["processes", "from 1 to"]),
        (["jobs", "submit", "app:flow"], 2, ["PAYLOAD"]),
        (["jobs", "submit", "nowhere:flow", "1"], 2, ["nowhere", "directory"]),
        (["jobs", "submit", "app:nothing", "1"], 2, ["nothing", "flows there: flow"]),
        (["jobs", "submit", "app:flow", "{"], 2, ["PAYLOAD is not JSON"]),
        (["jobs", "submit", "app:flow", "7"], 2, ["split", "expected str"]),
        (["jobs", "submit", "app:flow", '"a"', "--priority", "1000"], 2, ["priority"]),
        (["dead", "purge", "--store", "app.py"], 2, ["--all"]),
    ],
)
def test_a_wrong_line_says_what_to_do(
    headrace_command: Command, here: Path, line: list[str], code: int, words: list[str]
) -> None:
    done = headrace_command(*line)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert [word for word in words if word not in done.stderr] == []
    assert "Traceback" not in done.stderr


def test_a_failure_is_one_document_too(headrace_command: Command, here: Path) -> None:
    done = headrace_command("--json", "jobs", "show", "nobody")
    assert json.loads(done.stdout)["error"]["exit_code"] == done.returncode == 3


def test_an_unreachable_server_is_named_without_its_password(headrace_command: Command) -> None:
    done = headrace_command("jobs", "list", "--store", "postgresql://me:topsecret@127.0.0.1:1/db?connect_timeout=2")
    assert done.returncode == 5, done.stderr
    assert "127.0.0.1" in done.stderr
    assert "topsecret" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_traceback_is_for_those_who_ask(headrace_command: Command, here: Path) -> None:
    assert "Traceback" in headrace_command("--debug", "jobs", "show", "nobody").stderr


def test_a_flag_beats_the_environment_and_that_beats_the_file(headrace_command: Command, here: Path) -> None:
    (here / "headrace.toml").write_text('store = "sqlite:///file.db"\n')

    def store_of(*flags: str, **variables: str) -> str:
        found = json.loads(headrace_command("doctor", "--json", *flags, **variables).stdout)["checks"]
        return str(next(check["found"] for check in found if check["name"] == "settings"))

    assert "file.db" in store_of()
    assert "variable.db" in store_of(HEADRACE_STORE="sqlite:///variable.db")
    assert "flag.db" in store_of("--store", "sqlite:///flag.db", HEADRACE_STORE="sqlite:///variable.db")


def test_a_setting_that_does_not_exist_is_refused(headrace_command: Command, here: Path) -> None:
    (here / "headrace.toml").write_text('stoer = "sqlite:///file.db"\n')
    done = headrace_command("jobs", "list")
    assert done.returncode == 2
    assert "stoer" in done.stderr
