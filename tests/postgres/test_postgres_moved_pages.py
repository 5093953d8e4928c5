"""What the pages show with SQLite files runs on PostgreSQL by changing the URLs, and prints the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pages import Command, Reader, block
from test_readme import PAGES

from headrace.testing.rig.postgres import PostgresServer

Moved = Callable[[str], str]


@pytest.fixture
def moved(postgres_server: PostgresServer) -> Iterator[Moved]:
    """A database of its own for every file that is named, on a server that `doctor` has nothing against."""
    known: dict[str, str] = {}
    with ExitStack() as databases:

        def url_of(name: str) -> str:
            if name not in known:
                known[name] = databases.enter_context(postgres_server.database())
            return known[name]

        yield url_of


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_runs_on_postgresql(
    page: str, moved: Moved, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    variables = {"HEADRACE_STORE": moved("headrace")}
    reader = Reader(tmp_path, headrace_command, capfd, variables=variables, moved=moved)
    reader.follow(page)
    assert "python" in reader.seen
    assert list(tmp_path.rglob("*.db")) == []


@pytest.mark.parametrize("name", ["README.md", "README.vi.md"])
def test_the_example_runs_on_postgresql(
    name: str, moved: Moved, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd, moved=moved)
    (tmp_path / "app.py").write_text(reader.with_urls(block(name, "python")))
    done = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("finished\n")
    assert list(tmp_path.rglob("*.db")) == []
