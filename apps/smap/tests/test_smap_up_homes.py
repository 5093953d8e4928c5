"""Whoever only looks makes nothing: a mistyped directory is told, not filled with empty databases."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.mark.parametrize("line", [("projects",), ("progress", "x"), ("failures", "x"), ("export", "x", "x.csv")])
@pytest.mark.parametrize("made", [False, True])
def test_a_mistyped_home_is_told(line: tuple[str, ...], made: bool, headrace_command: Command, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SMAP_")]:
        del os.environ[name]
    home = tmp_path / "mistyped"
    if made:
        home.mkdir()
    done = headrace_command("smap", *line, SMAP_HOME="mistyped")
    assert done.returncode == 3
    assert str(home) in done.stderr
    assert "SMAP_HOME" in done.stderr
    assert home.exists() == made
    assert not made or list(home.iterdir()) == []
