"""What the page about silver shows is run, on the embedded store and then on PostgreSQL as the page goes on."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pages import ROOT, Reader
from silver_desk import ask

PAGE = "docs/silver.md"
Command = Callable[..., "subprocess.CompletedProcess[str]"]


@dataclass
class _SilverReader(Reader):
    """Exports a variable from where the page does, and to every program it starts."""

    exported: set[str] = field(default_factory=set)

    def type(self, line: str) -> str:
        named = re.match(r"export (\w+)=", line)
        if named:
            self.exported.add(named[1])
            self.variables.setdefault(named[1], shlex.split(line.partition("=")[2])[0])
            return ""
        os.environ.update(self._exported())
        return super().type(line)

    def _exported(self) -> dict[str, str]:
        return {name: self.variables[name] for name in self.exported}


def test_what_the_page_shows_is_run(
    postgres_database: str, tmp_path: Path, headrace_command: Command, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("PG_DSN", "PGHOST", "PGDATABASE", "PGSERVICE", "PGHOSTADDR"):
        os.environ.pop(name, None)
    reader = _SilverReader(tmp_path, headrace_command, capfd, variables={"PG_DSN": postgres_database})
    reader.follow(PAGE)
    assert reader.seen.count("sh") == 5
    assert (tmp_path / "demo" / "report.html").exists()
    assert (tmp_path / "report.html").exists()
    embedded = f"sqlite:///{tmp_path / 'silver.db'}"
    # The wider pattern let the funds and warrants in.
    assert ask(embedded, "SELECT count(*) > 20 FROM ta_silver WHERE symbol IN ('CVNM2401', 'E1VFVN30')") == [(1,)]
    assert ask(postgres_database, "SELECT symbol, close FROM ta_silver") == [("FPT", 97_000.0)]
    assert ask(postgres_database, "SELECT rule_id FROM task_q_dlq") == [("ta_volume",)]


def test_the_tests_that_the_page_names_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / PAGE).read_text("utf-8")))
    written = "\n".join(path.read_text("utf-8") for path in (ROOT / "apps" / "silver" / "tests").glob("test_*.py"))
    assert len(named) > 15
    assert {name for name in named if f"def {name}(" not in written} == set()


def test_the_page_names_every_command_and_no_other(headrace_command: Command) -> None:
    told = headrace_command("silver", "--help").stdout
    commands = set(re.findall(r"^  ([a-z]+)  ", told.partition("Commands:")[2], re.MULTILINE))
    text = (ROOT / PAGE).read_text("utf-8")
    rows = re.findall(r"^\| (`.*?) \|", text.partition("## Commands")[2].partition("| variable")[0], re.MULTILINE)
    listed = set(re.findall(r"`([a-z]+)[ `]", " ".join(rows)))
    assert listed - {"headrace"} == commands
