"""What docs/pm-operations.md shows is run, and its tables are those of the code."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, Command, Reader

from headrace_pm.operators.import_tables import IMPORTED

PAGE = "docs/pm-operations.md"


def test_what_the_page_for_operators_shows_is_run(
    tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd)
    sample = [line for line in (ROOT / PAGE).read_text("utf-8").splitlines() if line.startswith("headrace pm ")]
    printed = "".join(reader.type(line) for line in sample)
    assert "32 of 32 periods are missing, of 8 elements" in printed
    assert "every counter that files have is wanted" in printed
    assert (tmp_path / "report.html").read_text("utf-8").count('class="strip"') == 8


def test_the_page_names_every_file_and_column_of_an_import() -> None:
    page = (ROOT / PAGE).read_text("utf-8")
    for table in IMPORTED:
        assert f"| `{table.name}.csv` | `{', '.join(table.columns)}` |" in page
