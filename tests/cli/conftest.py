"""A small application in a directory of its own, and commands run on it as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from greeting_app import APP

from headrace.commands import environment_without

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Started = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with an `app.py`."""
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


@pytest.fixture
def answer(headrace_command: Command, here: Path) -> Callable[..., Any]:
    """The JSON document of a command that must go well."""

    def run(*arguments: str) -> Any:
        done = headrace_command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture
def started(here: Path) -> Iterator[Started]:
    """Start `headrace …` and go on; whatever still runs at the end is killed."""
    running: list[subprocess.Popen[str]] = []
    environment = environment_without("HEADRACE_")

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace", *arguments],
            cwd=here,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return process

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
