"""What the table of counters holds, in the words of the truth."""

from __future__ import annotations

import json
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
        cursor.execute(_ROWS)
        return ordered(map(_row, cursor.fetchall()))


def _row(found: tuple[object, ...]) -> Row:
    row: Row = dict(zip(_COLUMNS, found, strict=True))
    moment = row["record_time"]
    assert isinstance(moment, datetime)
    row["record_time"] = round(moment.replace(tzinfo=UTC).timestamp() * 1_000)
    return {**row, "obj_hash": f"{row['obj_hash']:016x}", "extra_field": json.loads(row["extra_field"])}
