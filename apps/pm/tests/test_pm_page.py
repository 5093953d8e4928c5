"""What docs/pm.md shows is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Command, Reader


def test_what_the_page_of_pm_shows_is_run(
    tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd)
    reader.follow("docs/pm.md")
    assert reader.seen == ["sh", "python", "text", "sh", "python", "text", "sh", "mermaid"]
    assert len(list((tmp_path / "faulty").iterdir())) == 30
