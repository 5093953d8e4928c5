"""What the README shows is run, in both languages."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def block(name: str, language: str, number: int = 0) -> str:
    text = (ROOT / name).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[number]


@pytest.mark.parametrize("name", ["README.md", "README.vi.md"])
def test_the_example_runs_and_finishes(name: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(block(name, "python"))
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
    # The second run meets the first one's key: the job is found finished and reports nothing again.
    assert done.stdout == "finished\n"


def test_the_example_reports_once(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(block("README.md", "python"))
    done = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "100 pages read, 0 dead\nfinished\n"


def test_both_languages_show_the_same_code() -> None:
    english, vietnamese = (ast.dump(ast.parse(block(name, "python"))) for name in ("README.md", "README.vi.md"))
    assert english == vietnamese


def test_the_commands_beside_it_work(tmp_path: Path, headrace_command: Command) -> None:
    (tmp_path / "app.py").write_text(block("README.md", "python"))
    lines = [line.split("#")[0] for line in block("README.md", "sh", 1).splitlines()]
    for line in lines:
        words = [word.strip("'") for word in line.split()]
        assert words[0] == "headrace"
        done = headrace_command(*words[1:])
        assert done.returncode == 0, done.stderr
    assert len(lines) == 5
