"""What the README and the pages of `docs/` show is run; pages that need servers by the tests that have them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages import ROOT, Command, Reader, block
from public_modules import PUBLIC

PAGES = (
    "docs/flows.md",
    "docs/operations.md",
    "docs/effects.md",
    "docs/schedules.md",
    "docs/sources.md",
    "docs/choreography.md",
    "docs/consuming.md",
    "docs/pages.md",
)
WITH_SERVERS = (
    "docs/postgres.md",
    "docs/leases.md",
    "docs/pm-operations.md",
    "docs/pm.md",
    "docs/mysql.md",
    "docs/rabbitmq.md",
    "docs/rig.md",
    "docs/scheduler.md",
    "docs/services.md",
    "docs/silver.md",
    "docs/smap.md",
    "docs/transactions.md",
)
# With nothing to run in them: written by a command, or a list of proofs that a test of its application looks up.
REPORTS = ("docs/matching.md", "docs/pm-design.md", "docs/scheduler-chaos.md")
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_shows_is_run(
    page: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = Reader(tmp_path, headrace_command, capfd)
    reader.follow(page)
    assert "python" in reader.seen


def test_every_page_is_run_by_some_test() -> None:
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "docs").iterdir()} == {
        *PAGES,
        *WITH_SERVERS,
        *REPORTS,
    }


@pytest.mark.parametrize("page", [*PAGES, *WITH_SERVERS, "README.md"])
def test_pages_use_public_names_only(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    used = set(re.findall(r"(?:from|import) (headrace[\w.]*)", text))
    assert used <= PUBLIC


@pytest.mark.parametrize("page", [*PAGES, *WITH_SERVERS, "README.md", "README.vi.md"])
def test_what_a_page_installs_exists(page: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"'headrace\[(\w+)\]'", (ROOT / page).read_text("utf-8"))) <= set(extras)


@pytest.mark.parametrize("page", [*PAGES, *WITH_SERVERS, *REPORTS, "README.md", "README.vi.md"])
def test_links_lead_somewhere(page: str) -> None:
    here = (ROOT / page).parent
    links = [link for link in LINK.findall((ROOT / page).read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (here / link).exists()] == []


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
