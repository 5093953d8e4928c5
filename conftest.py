"""What several test files need."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from headrace.cli.app import run as run_line
from headrace.commands import environment_without

pytest_plugins = ["headrace.testing.fixtures"]
# A failing contract shows its values, as a test of one's own would; said before anybody imports one.
pytest.register_assert_rewrite("headrace.testing.contracts")

Command = Callable[..., "subprocess.CompletedProcess[str]"]
COMMAND_S_MAX = 60


@pytest.fixture
def own_modules(tmp_path: Path) -> Iterator[None]:
    """Forget afterwards what a test imported from its own directory."""
    path, environment = list(sys.path), dict(os.environ)
    yield
    sys.path[:] = path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(f"{tmp_path}{os.sep}"):
            del sys.modules[name]
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def headrace_command(tmp_path: Path, own_modules: None, capfd: pytest.CaptureFixture[str]) -> Command:
    """Run one command line in a directory of its own: the whole of `headrace …` but the start of a process."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        for name in [name for name in os.environ if name.startswith("HEADRACE_")]:
            del os.environ[name]
        os.environ.update(variables)
        capfd.readouterr()
        with chdir(tmp_path):
            code = run_line(arguments)
        told = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, code, told.out, told.err)

    return run


@pytest.fixture
def headrace_process(tmp_path: Path) -> Command:
    """Run `headrace …` as its own process in a directory of its own, as a user would."""
    environment = environment_without("HEADRACE_")

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *arguments],
            cwd=tmp_path,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=COMMAND_S_MAX,
            check=False,
        )

    return run
