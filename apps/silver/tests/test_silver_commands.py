"""`headrace silver …`, typed as its users type it."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from silver_desk import article, ask, bar, lines

from headrace.commands import environment_without
from headrace_silver.commands.opened_stores import EMBEDDED, url_of
from headrace_silver.queue.backlog_flag import LOOKS, wait_until_off
from headrace_silver.records.rules import RULES
from headrace_silver.stores.silver_store import FLAG, open_store

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Silver = Callable[..., Any]

SLOW = (
    f"INSERT INTO control_flags (name, value, updated_at) VALUES ('{FLAG}', {{}}, '2026-01-30T00:00:00.000000+00:00')"
)


@pytest.fixture
def silver(headrace_command: Command, silver_url: str) -> Silver:
    """Run `headrace silver …` on a store of either kind; its JSON answer, or without JSON what it printed."""

    def run(*words: str, code: int = 0, json_too: bool = True, **variables: str) -> Any:
        line = ["--json", "silver", *words] if json_too else ["silver", *words]
        done = headrace_command(*line, PG_DSN=silver_url, **variables)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout) if json_too and done.stdout else done.stdout + done.stderr

    return run


def test_the_walk_of_a_user(silver: Silver, silver_url: str, tmp_path: Path) -> None:
    assert silver("init")["dialect"] in ("postgres", "sqlite")
    lines(tmp_path / "bars.jsonl", [bar(), bar("CVNM2401"), bar(volume=-1)])
    lines(tmp_path / "articles.jsonl", [article()])
    put = silver("put", "bars.jsonl", "articles.jsonl", "--priority", "5")
    assert [(each["file"], each["put"], each["error"]) for each in put] == [
        ("bars.jsonl", 3, None),
        ("articles.jsonl", 1, None),
    ]
    assert silver("flag", "--count") == {"name": FLAG, "value": False, "updated_at": None, "ready": 4}
    consumed = silver("consume", "--drain")
    assert (consumed["bars"], consumed["articles"], consumed["by_rule"]) == (1, 1, {"ta_symbol": 1, "ta_volume": 1})
    assert silver("flag", "--wait")["updated_at"] is not None
    counts = silver("dead", "counts")
    assert sorted((each["rule_id"], each["count"]) for each in counts) == [("ta_symbol", 1), ("ta_volume", 1)]
    (letter,) = silver("dead", "list", "--rule", "ta_symbol")
    shown = silver("dead", "show", str(letter["id"]))
    assert (shown["payload"]["symbol"], shown["status"], shown["task_type"]) == ("CVNM2401", "dlq", "ta.bar")
    assert silver("dead", "redrive", "--rule", "ta_symbol") == {"redriven": 1, "anew": 0, "left": 0, "left_first": []}
    assert silver("consume", SILVER_SYMBOL_PATTERN="^[A-Z0-9]{3,8}$")["bars"] == 1
    assert ask(silver_url, "SELECT symbol FROM ta_silver ORDER BY symbol") == [("CVNM2401",), ("VNM",)]
    assert silver("dead", "export", "letters.jsonl") == {"file": "letters.jsonl", "letters": 1}
    assert json.loads((tmp_path / "letters.jsonl").read_text())["rule_id"] == "ta_volume"


def test_people_get_words(silver: Silver, tmp_path: Path) -> None:
    silver("init", json_too=False)
    lines(tmp_path / "bars.jsonl", [bar("[red]vnm[/]")])
    assert silver("put", "bars.jsonl", json_too=False) == "bars.jsonl: 1 ta.bar\n"
    assert "0 bars, 0 articles, 1 rejects" in silver("consume", json_too=False)
    assert "ta_symbol" in silver("dead", "counts", json_too=False)
    assert "[red]vnm[/]" in silver("dead", "list", json_too=False)
    assert "[red]vnm[/]" in silver("dead", "show", "1", json_too=False)
    assert silver("dead", "redrive", "--yes", json_too=False) == "1 redriven\n"
    assert "SCRAPE_SLOW off, written 20" in silver("flag", json_too=False)


def test_the_doctor_names_who_holds_the_lock(silver: Silver, silver_url: str) -> None:
    silver("init")
    assert silver("doctor")["checks"][1]["found"] == "silver_consume is free"
    store = open_store(silver_url)
    assert store.lock()
    mine = str(os.getpid())
    if store.dialect == "postgres":
        mine = f"{store.rows('consume_begin')[0][1]} of postgres from 127.0.0.1 (headrace silver)"
    held = silver("doctor")
    store.close()
    assert held["healthy"]
    assert held["checks"][1]["found"].startswith(f"silver_consume is held by process {mine}")
    ask(silver_url, SLOW.format("true"))
    assert "SCRAPE_SLOW is on" in silver("doctor", json_too=False)


def test_the_doctor_and_the_report_suggest_a_pattern_for_warrants_and_funds(silver: Silver, tmp_path: Path) -> None:
    silver("init")
    real = [bar("CVNM2401"), bar("CVNM2401", "2024-01-03"), bar("E1VFVN30"), bar("FUEVFVND"), bar("PC1")]
    lines(tmp_path / "bars.jsonl", [*real, bar("vnm"), bar("VNM3000"), bar("FPT", "2024-01-04")])
    silver("put", "bars.jsonl")
    silver("consume")
    [found] = [check for check in silver("doctor")["checks"] if check["name"] == "symbols"]
    assert found["state"] == "warning"
    assert found["found"].startswith("5 of 7 bars")
    pattern = found["hint"].split("'")[1]
    [note] = [note for note in silver("report")["notes"] if "SILVER_SYMBOL_PATTERN" in note]
    assert "CVNM2401, E1VFVN30, FUEVFVND, PC1" in note
    assert pattern in note
    # Whoever set a pattern has decided.
    assert [check["name"] for check in silver("doctor", SILVER_SYMBOL_PATTERN=pattern)["checks"]][-1] == "flag"
    silver("dead", "redrive", "--rule", "ta_symbol")
    assert silver("consume", SILVER_SYMBOL_PATTERN=pattern)["bars"] == 5
    assert sorted(letter["payload"]["symbol"] for letter in silver("dead", "list")) == ["VNM3000", "vnm"]


def test_the_doctor_says_what_is_missing(silver: Silver, silver_url: str) -> None:
    ask(silver_url, "CREATE TABLE other (id INTEGER)")
    (check,) = silver("doctor", code=1)["checks"]
    assert (check["state"], check["hint"]) == ("bad", "headrace silver init")


def test_silver_is_listed_among_the_commands(headrace_command: Command) -> None:
    assert re.search(r"silver +Stock-market silver layer", headrace_command("--help").stdout)


def test_the_rules_are_listed(headrace_command: Command) -> None:
    told = json.loads(headrace_command("--json", "silver", "rules").stdout)
    assert [rule["id"] for rule in told["rules"]] == [rule.id for rule in RULES]
    assert told["symbol_pattern"] == "^[A-Z]{3,7}$"
    words = headrace_command("silver", "rules", SILVER_SYMBOL_PATTERN="^[A-Z0-9]+$").stdout
    assert [rule.id for rule in RULES if rule.id not in words] == []
    assert "symbols match ^[A-Z0-9]+$" in words


def test_a_file_that_cannot_be_put_does_not_stop_the_others(silver: Silver, silver_url: str, tmp_path: Path) -> None:
    silver("init")
    lines(tmp_path / "good.jsonl", [bar()])
    (tmp_path / "bad.jsonl").write_text("{}\n")
    put = silver("put", "bad.jsonl", "nowhere.csv", "good.jsonl", code=1)
    assert [each["put"] for each in put] == [0, 0, 1]
    assert "bad.jsonl, line 1" in put[0]["error"]
    assert "nowhere.csv: No such file" in put[1]["error"]
    assert ask(silver_url, "SELECT count(*) FROM task_q") == [(1,)]


def test_a_letter_that_stays_is_told_by_the_exit_code(silver: Silver, silver_url: str, tmp_path: Path) -> None:
    silver("init")
    lines(tmp_path / "odd.jsonl", [{"task_type": "ta.tick", "payload": bar()}])
    silver("put", "odd.jsonl")
    silver("consume")
    ask(silver_url, "DELETE FROM task_q")
    assert silver("dead", "redrive", "--yes", code=1)["left"] == 1
    assert "letter 1 stays" in silver("dead", "redrive", "--yes", code=1, json_too=False)


def test_letters_are_closed_with_a_note_and_reopened(silver: Silver, tmp_path: Path) -> None:
    silver("init")
    lines(tmp_path / "bars.jsonl", [bar("vnm"), bar(volume=-1)])
    silver("put", "bars.jsonl")
    silver("consume")
    assert silver("dead", "close", "--rule", "ta_volume", "--note", "cancelled", "--by", "lan") == {
        "closed": 1,
        "left": [],
    }
    assert "lan closed it" in silver("dead", "close", "--id", "2", "--note", "again", code=1, json_too=False)
    shown = silver("dead", "show", "2", json_too=False)
    assert "cancelled" in shown
    assert "closed_by    lan" in shown
    assert [letter["id"] for letter in silver("dead", "list")] == [1]
    assert "to reopen it" in silver("dead", "redrive", "--id", "2", code=1, json_too=False)
    assert silver("dead", "reopen", "2") == {"reopened": [2], "left": []}
    assert "letter 2 was not closed" in silver("dead", "reopen", "2", code=1, json_too=False)
    assert "--yes" in silver("dead", "close", "--note", "all", code=2, json_too=False)


@contextmanager
def _given(text: bytes) -> Any:
    """Something on stdin."""
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text))
    try:
        yield
    finally:
        sys.stdin = before


def test_a_sample_goes_from_stdout_to_stdin(silver: Silver) -> None:
    silver("init")
    small = ("--symbols", "5", "--days", "5", "--articles", "10", "--until", "2026-01-30", "--seed", "3")
    made = silver("sample", "-", *small, json_too=False)
    with _given(made.encode()):
        put = silver("put", "-")
    assert put[0]["put"] == len(made.splitlines()) >= 35
    document = silver("sample", "--put", *small)
    assert document["rows"] == put[0]["kinds"]
    assert silver("flag", "--count")["ready"] == 2 * put[0]["put"]


def test_a_wrong_line_says_what_to_do(headrace_command: Command, tmp_path: Path) -> None:
    lines(tmp_path / "bars.jsonl", [bar()])
    cases: list[tuple[list[str], int, str]] = [
        (["dead", "counts"], 3, "silver.db"),
        (["put", "bars.jsonl", "--kind", "ta.tick"], 2, "sa.article"),
        (["put", "bars.jsonl", "--format", "xlsx"], 2, "parquet"),
        (["put", "bars.jsonl", "--priority", "9999999999"], 1, "priority"),
        (["dead", "redrive"], 2, "--yes"),
        (["dead", "list", "--since", "gestern"], 2, "--since 2026"),
        (["dead", "show", "17"], 3, "dead list"),
        (["consume", "--drain", "--follow"], 2, "choose one"),
        (["flag", "--timeout", "3"], 2, "--wait"),
        (["sample", "-", "--format", "csv"], 2, "directory"),
        (["sample", "--bad", "viel"], 2, "--bad 0.05"),
        (["sample", "--bad", "ta_nobody=0.5"], 2, "ta_symbol"),
        (["sample", "--until", "bald"], 2, "--until 2026"),
    ]
    for line, code, words in cases:
        done = headrace_command("silver", *line)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (line, done.stderr)
        assert words in done.stderr, line


def test_no_database_is_told_without_its_password(headrace_command: Command) -> None:
    dsn = "postgresql://me:topsecret@127.0.0.1:1/silver?connect_timeout=2"
    for line in (["consume"], ["flag", "--wait"], ["dead", "counts"]):
        done = headrace_command("silver", *line, PG_DSN=dsn)
        assert done.returncode == 5, done.stderr
        assert "topsecret" not in done.stdout + done.stderr
        assert "headrace silver doctor" in done.stdout + done.stderr


def test_waiting_for_the_flag_ends_when_it_goes_off(silver_url: str) -> None:
    store = open_store(silver_url)
    store.create()
    ask(silver_url, SLOW.format("true"))
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            ask(silver_url, "UPDATE control_flags SET value = false")

    assert wait_until_off(store, None, pause).on is False
    assert pauses == sorted(pauses)
    assert max(pauses) == LOOKS.max_s
    store.close()


def test_waiting_in_vain_has_its_own_exit_code(silver: Silver, silver_url: str) -> None:
    silver("init")
    ask(silver_url, SLOW.format("true"))
    assert silver("flag")["value"] is True
    assert silver("flag", "--wait", "--timeout", "0.2", code=6)["error"]["exit_code"] == 6


def test_what_is_stated_first_says_where_the_data_is() -> None:
    variables = {"PG_DSN": "postgresql://a/b", "PGHOST": "c"}
    assert url_of("sqlite:///d.db", variables) == "sqlite:///d.db"
    assert url_of(None, variables) == "postgresql://a/b"
    assert url_of(None, {"PGHOST": "c"}) is None
    assert url_of(None, {"PG_DSN": ""}) == EMBEDDED


def test_the_demo_shows_the_whole_walk(silver: Silver, silver_url: str, tmp_path: Path) -> None:
    told = silver("demo", "--rows", "2000", "--to", "shown")
    assert told["rejects"] == told["bad"]
    assert told["bars"] + told["articles"] + sum(told["bad"].values()) == sum(told["rows"].values())
    page = (tmp_path / told["report"]).read_text("utf-8")
    assert "<html" in page
    # Real tickers are in it: what is there already is not overwritten by accident.
    assert silver("demo", "--rows", "2000", code=4)["error"]["hint"].endswith("--yes")
    assert ask(silver_url, "SELECT count(*) FROM task_q WHERE status = 'ready'") == [(0,)]


def test_the_demo_needs_nothing(headrace_command: Command) -> None:
    done = headrace_command("silver", "demo", "--rows", "1000", PG_DSN="", PGHOST="", SILVER_SYMBOL_PATTERN=".*")
    assert done.returncode == 0, done.stderr
    assert "every bad row by the rule it breaks" in done.stdout
    report = Path(done.stdout.split("file://")[1].strip())
    assert report.exists()
    shutil.rmtree(report.parent)


def test_the_embedded_store_needs_neither_psycopg_nor_pyarrow(tmp_path: Path) -> None:
    lines(tmp_path / "bars.jsonl", [bar()])
    (tmp_path / "bars.parquet").write_bytes(b"PAR1")
    program = """
import sys
sys.modules.update(dict.fromkeys(("psycopg", "pyarrow", "pyarrow.parquet")))
from headrace.cli.app import run
assert run(["silver", "demo", "--rows", "500", "--to", "shown"]) == 0
assert run(["silver", "put", "bars.jsonl"]) == 0
assert run(["silver", "put", "bars.parquet"]) == 1
assert run(["silver", "consume", "--store", "postgresql://localhost/silver"]) == 1
"""
    environment = environment_without("PG")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pip install headrace-silver" in done.stderr
    assert "pip install 'headrace[postgres]'" in done.stderr
