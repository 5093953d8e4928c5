"""What the page about smap shows is run, and what it names is there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import ROOT, Reader

from headrace_smap.database import STATEMENTS

PAGE = "docs/smap.md"
Command = Callable[..., "subprocess.CompletedProcess[str]"]


class _SmapReader(Reader):
    """Exports what the page exports."""

    def _exported(self) -> dict[str, str]:
        return {name: value for name, value in self.variables.items() if name.startswith("SMAP_")}


def test_what_the_page_shows_is_run(
    tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("SMAP_")]:
        del os.environ[name]
    reader = _SmapReader(tmp_path, headrace_command, capfd)
    reader.follow(PAGE)
    assert reader.seen.count("sh") == 2
    (report,) = (tmp_path / "demo").glob("report-*.html")
    assert "posts analysed" in report.read_text("utf-8")
    assert not (tmp_path / "smap-data").exists(), "the commands work where SMAP_HOME says"


@pytest.mark.parametrize("table", ["projects", "post_analytics"])
@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_the_columns_that_the_page_names_are_there(table: str, dialect: str) -> None:
    named = re.search(rf"`{table}\(([^)]*)\)`", (ROOT / PAGE).read_text("utf-8"))
    assert named
    (made,) = [part.text for part in STATEMENTS.migrations(dialect)[0].parts if part.creates == table]
    columns = re.findall(r"^ +([a-z_]+) +(?i:text|int|bigint|real|double|json|time|date|bool)", made, re.MULTILINE)
    assert columns == [name.strip() for name in named[1].split(",")]


def test_what_the_commands_of_the_page_leave_is_no_source() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {"/smap-data/", "/demo/"} <= set(ignored)
