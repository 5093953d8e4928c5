"""`headrace silver report`, `late`, `revisions` and `export`, as a user calls them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from silver_desk import bar, consume, put

from headrace_silver.market import calendar
from headrace_silver.stores.silver_store import open_store

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def url(silver_url: str) -> str:
    """Two symbols up to the last closed day, two bars of one overwritten twice, and one that is three days late."""
    with closing(open_store(silver_url)) as store:
        store.create()
        days = [day.isoformat() for day in calendar.last_trading_days(calendar.last_closed_day(datetime.now(UTC)), 10)]
        put(store, [bar(symbol, day) for symbol in ("VNM", "FPT") for day in days])
        put(store, [bar("HPG", day) for day in days[:-3]])
        consume(store)
        for volume in (5, 6):
            put(store, [bar("VNM", days[4], volume=volume), bar("VNM", days[2], volume=volume)])
            consume(store)
    return silver_url


def test_the_report_is_printed_and_written(headrace_command: Command, url: str, tmp_path: Path) -> None:
    told = headrace_command("silver", "report", "--days", "20", "--html", "page.html", "--store", url)
    assert told.returncode == 0, told.stderr
    assert "1 of 3 symbols is late" in told.stdout
    assert "page.html" in told.stderr
    assert "1 of 3 symbols is late" in (tmp_path / "page.html").read_text("utf-8")


def test_the_report_is_one_document_for_scripts(headrace_command: Command, url: str, tmp_path: Path) -> None:
    (tmp_path / "exchanges.csv").write_text("symbol,exchange\nHPG,HNX\n")
    assert headrace_command("silver", "market", "exchanges", "exchanges.csv", "--store", url).returncode == 0
    line = ("silver", "report", "--days", "20", "--exchange", "upcom", "--json")
    told = headrace_command(*line, "--store", url)
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    assert document["late"] == ["HPG"]
    assert {entry["symbol"]: entry["exchange"] for entry in document["symbols"]} == {
        "VNM": "UPCOM",
        "FPT": "UPCOM",
        "HPG": "HNX",
    }
    assert [entry["revisions"] for entry in document["symbols"] if entry["symbol"] == "VNM"] == [4]


def test_a_symbol_that_is_late_is_an_exit_code_for_cron(headrace_command: Command, url: str) -> None:
    told = headrace_command("silver", "late", "--store", url)
    assert told.returncode == 1
    assert "1 of 3 symbols lack a bar for" in told.stdout
    assert "HPG" in told.stdout
    document = json.loads(headrace_command("silver", "late", "--json", "--store", url).stdout)
    assert [(entry["symbol"], entry["days_behind"]) for entry in document["late"]] == [("HPG", 3)]


def test_nobody_late_is_exit_code_zero_and_those_that_stopped_are_named(headrace_command: Command, url: str) -> None:
    told = headrace_command("silver", "late", "--stopped-after", "2", "--store", url)
    assert told.returncode == 0
    assert "2 symbols, none late" in told.stdout
    assert "stopped: HPG" in told.stdout


def test_the_history_of_a_bar_is_shown_latest_first(headrace_command: Command, url: str) -> None:
    document = json.loads(headrace_command("silver", "revisions", "VNM", "--json", "--store", url).stdout)
    assert [[version["volume"] for version in entry["versions"]] for entry in document["bars"]] == [[6, 5, 1000]] * 2
    assert [entry["versions"][0]["replaced_at"] for entry in document["bars"]] == [None, None]
    days = [entry["day"] for entry in document["bars"]]
    assert days == sorted(days, reverse=True)
    only = headrace_command("silver", "revisions", "VNM", days[1], "--store", url)
    assert days[1] in only.stdout
    assert days[0] not in only.stdout
    assert "now" in only.stdout


def test_a_symbol_without_a_history_is_told_so(headrace_command: Command, url: str) -> None:
    told = headrace_command("silver", "revisions", "FPT", "--store", url)
    assert (told.returncode, told.stdout) == (0, "no bar of FPT was overwritten with other values\n")


def test_the_export_lists_its_files(headrace_command: Command, url: str, tmp_path: Path) -> None:
    told = headrace_command("silver", "export", "out", "--table", "revisions", "--json", "--store", url)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == {"files": [{"table": "revisions", "path": "out/revisions.parquet", "rows": 4}]}
    assert (tmp_path / "out" / "revisions.parquet").exists()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("report", "--exchange", "NYSE"), "'NYSE' is not an exchange"),
        (("market", "exchanges", "none.csv"), "cannot be read"),
        (("report", "--days", "0"), "--days"),
        (("report", "--html", "nowhere/page.html"), "cannot be written"),
        (("export", "out", "--table", "prices"), "'prices' is not a table"),
        (("revisions", "VNM", "yesterday"), "yesterday"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(headrace_command: Command, line: tuple[str, ...], words: str) -> None:
    headrace_command("silver", "init", "--store", "sqlite:///silver.db")
    told = headrace_command("silver", *line, "--store", "sqlite:///silver.db")
    assert told.returncode == 2
    assert words in told.stderr


def test_a_store_that_is_not_there_is_not_made(headrace_command: Command, tmp_path: Path) -> None:
    told = headrace_command("silver", "late", "--store", "sqlite:///none.db")
    assert told.returncode == 3
    assert not (tmp_path / "none.db").exists()
