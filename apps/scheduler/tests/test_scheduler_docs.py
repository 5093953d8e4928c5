"""What docs/scheduler.md says of tables and tests is so."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "scheduler.md").read_text("utf-8")
SCHEMAS = (
    ROOT / "apps" / "scheduler" / "infra" / "schema.cql",
    ROOT / "src/headrace/adapters/cassandra/cql/schema/locks.cql",
)
TABLE = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*?)\n\)", re.DOTALL)
COLUMN = re.compile(r"^\s*(\w+) (int|timestamp|uuid|text|bigint|double)\b", re.MULTILINE)
ENTITY = re.compile(r"^    (\w+) \{\n(.*?)^    \}", re.MULTILINE | re.DOTALL)
DRAWN = re.compile(r"^\s*(int|timestamp|uuid|text|bigint|double) (\w+)", re.MULTILINE)
CONTRACT = {"jobs_sharded", "jobs_pending_by_bucket", "job_history", "jobs_dlq", "locks", "lock_seq"}
REQUIREMENTS = [*(f"FR-{number}" for number in range(1, 8)), *(f"NFR-{number}" for number in range(1, 6))]


def known_tests() -> set[str]:
    files = [*ROOT.glob("apps/scheduler/tests/test_*.py"), *ROOT.glob("tests/cassandra/test_*.py")]
    return {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))}


def test_every_requirement_has_a_row_whose_tests_are_there() -> None:
    rows = re.findall(r"^\| (N?FR-\d) .*$", PAGE, re.MULTILINE)
    assert rows == REQUIREMENTS
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert named - known_tests() == set()


def test_the_drawn_tables_have_the_columns_of_the_schema() -> None:
    schema = {
        name: dict(COLUMN.findall(columns))
        for path in SCHEMAS
        for name, columns in TABLE.findall(path.read_text("utf-8"))
    }
    drawn = {name: {column: kind for kind, column in DRAWN.findall(columns)} for name, columns in ENTITY.findall(PAGE)}
    assert set(drawn) >= CONTRACT
    assert drawn == {name: schema[name] for name in drawn}


def test_the_six_diagrams_are_drawn() -> None:
    kinds = re.findall(r"^```mermaid\n(\w+)", PAGE, re.MULTILINE)
    assert sorted(kinds) == ["erDiagram", "flowchart", "flowchart", "flowchart", "sequenceDiagram", "stateDiagram"]
