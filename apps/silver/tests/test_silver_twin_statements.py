"""Every named statement of the embedded store can be run by it, and says the same as its namesake for PostgreSQL."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import apsw
import pytest

from headrace_silver.stores.silver_store import init_script, parts, statements
from headrace_silver.stores.sqlite.statements import spelled_parts, statement

# How a batch is written is each database's own affair; all that tools and reports ask for has to be in both.
OWN = ("consume", "silver")
_VALUES = re.compile(r"'[^']*'|--[^\n]*|::|:([a-z_]+)")


def names_in(dialect: str) -> dict[str, set[str]]:
    """The values that each shared statement of a dialect takes."""
    folder = resources.files("headrace_silver") / "sql" / dialect
    shared = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(OWN)]
    names = [name for file in shared for name in re.findall(r"-- name: (\w+)", file.read_text("utf-8"))]
    return {name: set(_VALUES.findall(statements(dialect)[name].text)) - {""} for name in names}


@pytest.mark.parametrize("name", sorted(statements("sqlite")))
def test_every_statement_is_one_that_sqlite_understands(embedded_other: apsw.Connection, name: str) -> None:
    embedded_other.execute(f"EXPLAIN {statement(name)}", _anything(name))


def _anything(name: str) -> Any:
    text = statement(name)
    if "?" in text:
        return [None] * text.count("?")
    return dict.fromkeys(set(_VALUES.findall(text)) - {""}) or None


def test_both_dialects_have_the_same_statements_with_the_same_values() -> None:
    assert names_in("sqlite") == names_in("postgres")


def test_the_tables_of_both_have_the_same_columns_in_the_same_order(embedded_other: apsw.Connection) -> None:
    texts = init_script() + "".join(part.text for part in parts("postgres"))
    tables = re.findall(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\);", texts, re.DOTALL)
    assert len(tables) >= 7
    for table, body in tables:
        columns = re.findall(r"^  ([a-z_]+) [A-Z]", body, re.MULTILINE)
        assert [row[1] for row in embedded_other.execute(f"PRAGMA table_info({table})")] == columns


def test_the_queue_is_read_through_its_index_and_nothing_is_sorted(embedded_other: apsw.Connection) -> None:
    plan = embedded_other.execute(f"EXPLAIN QUERY PLAN {statement('consume_fetch')}", {"size": 500}).fetchall()
    assert [row[3] for row in plan] == ["SEARCH task_q USING INDEX idx_task_q_status (status=?)"]


def test_the_flag_counts_no_further_than_the_index(embedded_other: apsw.Connection) -> None:
    values = {"name": "x", "threshold": 10, "now": None}
    plan = embedded_other.execute(f"EXPLAIN QUERY PLAN {statement('consume_flag')}", values).fetchall()
    assert [row[3] for row in plan if "task_q" in str(row[3])] == [
        "SEARCH task_q USING COVERING INDEX idx_task_q_status (status=?)"
    ]


def test_every_part_says_what_it_makes_so_that_it_is_made_once() -> None:
    for part in (*spelled_parts(), *parts("postgres")):
        assert re.findall(r"CREATE (?:TABLE|INDEX) (\w+)", part.text) == [part.creates]
        assert "{" not in part.text
