"""What the table of counters holds, in the words of the truth."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pymysql
from pm_kafka_world import Row, ordered

_COLUMNS = (
    *("ne_id", "record_time", "duration", "counter_id", "counter_value", "group_code"),
    *("rat_type", "cell_index", "obj_hash", "extra_field", "version"),
)
_ROWS = f"SELECT {', '.join(_COLUMNS)} FROM pm_counter_data"


def mysql_rows(url: str) -> list[Row]:
    """All rows, in the order of their text."""
    place = urlsplit(url)
    where = {"host": "127.0.0.1", "port": place.port or 0, "database": place.path[1:]}
    with closing(pymysql.connect(user="rig", password="rig", **where)) as connection, connection.cursor() as cursor:

        def query(statement: str) -> list[tuple[object, ...]]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        return table_rows(query)


def table_rows(query: Callable[[str], list[tuple[object, ...]]]) -> list[Row]:
    """The same on whichever database answers."""
    return ordered(map(_row, query(_ROWS)))


def _row(found: tuple[object, ...]) -> Row:
    row: Row = dict(zip(_COLUMNS, found, strict=True))
    moment = row["record_time"]
    # SQLite has times as text.
    read = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    row["record_time"] = round(read.replace(tzinfo=UTC).timestamp() * 1_000)
    # And numbers with a sign: the bits are the same.
    return {**row, "obj_hash": f"{row['obj_hash'] % 2**64:016x}", "extra_field": json.loads(row["extra_field"])}
