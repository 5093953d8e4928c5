"""What the page about leases on Cassandra shows is run against a live node."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import Command, Reader


def test_what_the_page_shows_is_run(
    cassandra_keyspace: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    variables = {"HEADRACE_CASSANDRA_URL": cassandra_keyspace}
    reader = Reader(tmp_path, headrace_command, capfd, variables=variables)
    reader.follow("docs/leases.md")
    assert reader.seen == ["sh", "python", "text"]
