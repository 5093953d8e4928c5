"""What the page about tables in MySQL shows is run against a live MariaDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Command, Reader


def test_what_the_page_shows_is_run(
    mariadb_database: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd, variables={"HEADRACE_DEPOT_URL": mariadb_database})
    reader.follow("docs/mysql.md")
    assert reader.seen == ["sql", "sql", "python", "text"]
