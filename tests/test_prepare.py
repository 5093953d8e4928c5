"""What `./run` says while it installs: what is being done and for how long, and nothing of it on stdout."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def prepare() -> Any:
    """The program as a module: it has no name that could be imported."""
    loader = SourceFileLoader("headrace_prepare", str(ROOT / ".ci" / "prepare"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Collecting typer<1,>=0.15 (from headrace==0.1.0)", "collecting typer"),
        ("  Downloading uuid_utils-0.11.0-cp39-abi3-manylinux_2_17_x86_64.whl (341 kB)", "downloading uuid_utils"),
        ("Installing collected packages: a, b, c", "installing 3 packages"),
        ("Preparing metadata (pyproject.toml): started", ""),
    ],
)
def test_lines_of_pip_become_steps(prepare: Any, line: str, step: str) -> None:
    assert prepare.step_of(line) == step


def test_a_log_is_told_what_is_done_now_and_then(prepare: Any) -> None:
    now, written = [100.0], io.StringIO()
    progress = prepare.Progress("preparing", written, lambda: now[0])
    progress.step = "collecting rich"
    for second in range(12):
        now[0] = 100.0 + second
        progress.look()
    progress.end()
    assert written.getvalue().splitlines() == [
        "headrace: preparing: collecting rich, 0 s",
        "headrace: preparing: collecting rich, 5 s",
        "headrace: preparing: collecting rich, 10 s",
        "headrace: preparing: ready after 11 s",
    ]


def test_a_terminal_sees_one_line_that_changes(prepare: Any) -> None:
    now, written = [0.0], Terminal()
    progress = prepare.Progress("preparing", written, lambda: now[0])
    for second in range(3):
        now[0] = float(second)
        progress.step = f"step {second}"
        progress.look()
    progress.end()
    assert written.getvalue().count("\n") == 1
    assert [piece.strip() for piece in written.getvalue().split("\r")[1:]] == [
        "headrace: preparing: step 0, 0 s",
        "headrace: preparing: step 1, 1 s",
        "headrace: preparing: step 2, 2 s",
        "headrace: preparing: ready after 2 s",
    ]


def test_the_steps_of_a_command_are_told_and_its_last_words_only_if_it_fails(
    prepare: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    written = io.StringIO()
    progress = prepare.Progress("preparing", written)
    assert prepare.run(progress, sys.executable, "-c", "print('Collecting rich')") == 0
    assert progress.step == "collecting rich"
    assert capfd.readouterr() == ("", "")
    assert prepare.run(progress, sys.executable, "-c", "print('no such package'); raise SystemExit(3)") == 3
    assert capfd.readouterr() == ("", "\nno such package\n")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("demo", "bare"),
        ("silver demo", "silver"),
        ("smap up --rig", "smap-rig"),
        ("matching demo", "matching"),
        ("matching up --rig", "matching-rig"),
        ("pm generate files", "pm"),
        ("pm up --rig", "pm-rig"),
        ("scheduler demo", "scheduler"),
        ("scheduler up --rig --nodes 1", "scheduler-rig"),
    ],
)
def test_run_installs_what_a_part_needs(prepare: Any, words: str, wanted: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "run", tmp_path)
    for name, text in {".ci/prepare": "import sys; print(sys.argv[1])", ".venv/bin/headrace": "#!/bin/sh\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    done = subprocess.run([tmp_path / "run", *words.split()], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [wanted]
    assert wanted in prepare.SETS
