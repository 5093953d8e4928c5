"""What docs/pm.md shows is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import Command, Reader


def test_what_the_page_of_pm_shows_is_run(
    tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd)
    reader.follow("docs/pm.md")
    assert reader.seen == ["sh", "python", "text", "mermaid", "sh", "sh", "mermaid"]
    assert len(list((tmp_path / "faulty").iterdir())) == 30


def test_every_proof_that_the_design_names_exists() -> None:
    """`file.py` or `file.py::test`."""
    here = Path(__file__).parent
    text = (here.parents[2] / "docs" / "pm-design.md").read_text("utf-8")
    named = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", text)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}" in (here / file).read_text("utf-8"), (file, test)
