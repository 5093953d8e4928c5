"""The commands for operators, typed as they would type them, on a real database."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pm_operator_world import FILES, counted, operator_tables, written

from headrace_pm.operators.unknown_counters import UnknownCounters

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def pm(headrace_command: Command, mariadb_database: str) -> Callable[..., Any]:
    """`headrace --json pm …` on the tables of a fresh database; its document."""

    def typed(*words: str, code: int = 0) -> Any:
        done = headrace_command("--json", "pm", *words, PM_MYSQL_DSN=mariadb_database)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return typed


async def filled(url: str) -> None:
    async with operator_tables(url) as tables:
        await counted(tables, 1, range(8), {101: 1.0, 102: 4.0})
        await counted(tables, 2, range(4), {101: 1.0})
        unknown = UnknownCounters(tables)
        unknown.note(1, "a.dat", {777: 5})
        await unknown.flush()


def test_dictionaries_gaps_and_kpis_by_command(pm: Callable[..., Any], mariadb_database: str, tmp_path: Path) -> None:
    folder = str(written(tmp_path / "dictionaries"))
    assert pm("import", folder, "--dry-run")["tables"]["ne"]["added"] == 2
    assert pm("import", folder)["tables"]["ne"] == {
        "added": 2,
        "changed": 0,
        "removed": 0,
        "rows": 2,
        "examples": ["+ 1, gnb-1", "+ 2, gnb-2"],
    }
    assert [each["table"] for each in pm("import", "--history")] == list(reversed(FILES))
    asyncio.run(filled(mariadb_database))
    day = ("--from", "2026-01-01", "--to", "2026-01-01T02:00")
    found = pm("gaps", *day)
    assert (found["elements"], found["periods"], found["missing"]) == (2, 8, 4)
    assert found["gaps"][0]["gaps"] == [
        {"from": "2026-01-01T01:00:00+00:00", "to": "2026-01-01T02:00:00+00:00", "periods": 4}
    ]
    assert [each["name"] for each in pm("kpi", "list")] == ["rrc_success"]
    shown = pm("kpi", "show", "rrc_success", *day, "--each")
    assert [(each["ne"], each["value"], each["missing"]) for each in shown["values"]] == [
        ("gnb-1", 25.0, []),
        ("gnb-2", None, [102]),
        ("gnb-1", 25.0, []),
        ("gnb-2", None, [101, 102]),
    ]
    assert (shown["missing"], shown["undefined"]) == (2, 0)
    rows = tmp_path / "counter_cat.csv"
    assert pm("counters", "unknown", "--csv", str(rows), "--group", "VoNR")["counters"][0]["counter_id"] == 777
    assert rows.read_text("utf-8") == "counter_id,object_level,group_code\n777,3,VoNR\n"
    assert pm("import", str(tmp_path))["tables"]["counter_cat"]["added"] == 1
    assert pm("counters", "unknown")["counters"] == []
    page = tmp_path / "report.html"
    assert pm("report", "--out", str(page), *day, "--language", "vi")["missing"] == 4
    assert "Thiếu 4 chu kỳ" in page.read_text("utf-8")


def test_what_cannot_be_answered_says_what_to_do(headrace_command: Command, tmp_path: Path) -> None:
    asked = headrace_command("pm", "gaps", PM_HOME=str(tmp_path / "none"), PM_MYSQL_DSN="")
    assert (asked.returncode, "headrace pm init" in asked.stderr) == (3, True)
    assert not (tmp_path / "none").exists()
    nobody = "mysql://u:secret@127.0.0.1:1/x"
    asked = headrace_command("pm", "gaps", "--from", "yesterday", PM_MYSQL_DSN=nobody)
    assert (asked.returncode, "write 2026-01-31" in asked.stderr) == (2, True)
    asked = headrace_command("pm", "gaps", PM_MYSQL_DSN=nobody)
    assert (asked.returncode, "secret" in asked.stderr) == (5, False)
