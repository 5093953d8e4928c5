"""The tables in ClickHouse: made if they are missing, and looked at before anything is written to them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import SchemaMismatch
from headrace_pm.clickhouse.client import ClickHouse
from headrace_pm.clickhouse.statements import DATA, DEAD, statement
from headrace_pm.kafka.row_binary import COLUMNS

ENGINE = "ReplacingMergeTree"
HINT = "headrace pm ddl shows the table that is expected"
_COLUMNS_QUERY = "SELECT name, type FROM system.columns WHERE database = {database:String} AND table = {table:String}"
_ENGINE_QUERY = "SELECT engine FROM system.tables WHERE database = {database:String} AND name = {table:String}"
_WRAPPED = re.compile(r"^LowCardinality\((.*)\)$")


async def make_tables(clickhouse: ClickHouse) -> None:
    """Both tables, unless they are there."""
    for name in (DATA, DEAD):
        await clickhouse.command(statement(name))


async def check_tables(clickhouse: ClickHouse) -> Mapping[str, str]:
    """The types of the data table's columns, by name; `SchemaMismatch` if blocks do not fit into it, or if rows that
    come twice would count twice."""
    at = {"database": clickhouse.database, "table": DATA}
    found = {str(name): str(kind) for name, kind in await clickhouse.rows(_COLUMNS_QUERY, at)}
    if not found:
        raise SchemaMismatch(f"ClickHouse has no table {clickhouse.database}.{DATA}", HINT)
    wrong = [
        f"{name} is {found[name]} and not {kind}" if name in found else f"{name} is missing"
        for name, kind in COLUMNS.items()
        if _plain(found.get(name, "")) != _plain(kind)
    ]
    if wrong:
        raise SchemaMismatch(f"{clickhouse.database}.{DATA} in ClickHouse: {'; '.join(wrong)}", HINT)
    [[engine]] = await clickhouse.rows(_ENGINE_QUERY, at)
    # A table over shards has the engine of its parts behind it, which cannot be seen from here.
    if ENGINE not in engine and engine != "Distributed":
        raise SchemaMismatch(f"{clickhouse.database}.{DATA} in ClickHouse is a {engine} and no {ENGINE}", HINT)
    return {name: found[name] for name in COLUMNS}


def _plain(kind: str) -> str:
    """In a block a column of low cardinality looks like any other."""
    wrapped = _WRAPPED.match(kind)
    return wrapped[1] if wrapped else kind
