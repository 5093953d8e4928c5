"""What the page about smap shows is run, and what it names is there."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import ROOT, Reader

import headrace
from headrace.core.table_statements import TableStatement
from headrace.tables import Statements
from headrace_smap.database import STATEMENTS
from headrace_smap.settings import SmapSettings

_LOOK = {
    "sqlite": "SELECT name FROM pragma_table_info(:relation) ORDER BY cid",
    "postgres": "SELECT column_name::text FROM information_schema.columns WHERE table_name = :relation"
    " AND table_schema = current_schema() ORDER BY ordinal_position",
}
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
    assert reader.seen.count("sh") == 3
    (report,) = (tmp_path / "demo").glob("report-*.html")
    assert "posts analysed" in report.read_text("utf-8")
    assert (tmp_path / "labels.csv").read_text("utf-8-sig").count("\n") > 1
    assert not (tmp_path / "smap-data").exists(), "the commands work where SMAP_HOME says"


class _Columns(Statements):
    """smap's tables, and a look at what they are made of."""

    def named(self, dialect: str) -> dict[str, TableStatement]:
        return {"columns": TableStatement.of("columns", _LOOK[dialect], True)}


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
async def test_the_columns_that_the_page_names_are_there(
    dialect: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    dsn = request.getfixturevalue("smap_database") if dialect == "postgres" else ""
    url = SmapSettings(home=tmp_path, pg_dsn=dsn).engine_url
    async with headrace.connect(url, tables=_Columns(STATEMENTS.package, repeatable=True)) as engine:
        for table in ("projects", "post_analytics"):
            async with engine.transaction() as tx:
                made = tx.run_many("columns", ({"relation": table},))
            named = re.search(rf"`{table}\(([^)]*)\)`", (ROOT / PAGE).read_text("utf-8"))
            assert named
            assert [name for (name,) in made.rows] == [name.strip() for name in named[1].split(",")]


def test_what_the_commands_of_the_page_leave_is_no_source() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert {"/smap-data/", "/demo/"} <= set(ignored)
