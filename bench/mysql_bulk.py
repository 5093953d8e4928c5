"""How many rows does a second of processor time put into MariaDB, of client and server together?

Two shapes: `full` is the row of a performance counter with its texts, `fixed` the same without them. Four ways in one
run, over the same rows in the same order, upserting, a transaction for each batch with a checkpoint in it:
`executemany` is the driver's usual one, `text` and `bulk` are units of `headrace.tables` by VALUES and by MariaDB's
bulk command, and `bulk_10k` the latter with ten times the rows in a batch. Each runs in a process of its own; the
server's time is what its process used meanwhile. Wall time says little on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy
import pymysql
from rig import tell

from headrace.adapters.mysql.options import MysqlOptions
from headrace.adapters.mysql.tables import MysqlTables
from headrace.core.table_statements import Step, TableMigration, TablePart, TableStatement
from headrace.core.units import Unit
from headrace.tables import Coded, Columns
from headrace.testing.rig.mariadb import MariaServer

BATCH, BIG_BATCH = 1_000, 10_000
WAYS = ("executemany", "text", "bulk", "bulk_10k")
OBJECTS, COUNTERS = 200, 100
FIXED = ("ne_id", "record_ms", "duration", "counter_id", "counter_value", "cell_index", "obj_hash", "version")
FULL = ("ne_id", "record_time", *FIXED[2:], "group_code", "rat_type", "extra_field")
KEYS = {"fixed": "ne_id, record_ms, duration, counter_id, obj_hash"}
KEYS["full"] = "ne_id, record_time, duration, counter_id, rat_type, obj_hash"
TYPES = {
    "ne_id": "integer NOT NULL",
    "record_time": "datetime(3) NOT NULL",
    "record_ms": "bigint NOT NULL",
    "duration": "integer NOT NULL",
    "counter_id": "integer NOT NULL",
    "counter_value": "double",
    "cell_index": "bigint",
    "obj_hash": "bigint unsigned NOT NULL",
    "version": "bigint NOT NULL",
    "group_code": "varchar(32) NOT NULL",
    "rat_type": "varchar(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL",
    "extra_field": "longtext",
}
BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
GROUPS = [f"GROUP_{number:02}" for number in range(12)]
# A parser writes the location of an object once for all its counters.
LOCATIONS = [f'{{"rat_type":"NR","cell":"gnb-{n}","sector":"{n % 3}","vendor":"x"}}' for n in range(OBJECTS)]
CHECKPOINT = TableStatement.of("moved", "UPDATE checkpoint SET next_batch = next_batch + 1 WHERE id = :id")


def names_of(shape: str) -> tuple[str, ...]:
    return FULL if shape == "full" else FIXED


def upsert_of(shape: str) -> TableStatement:
    names = names_of(shape)
    newer = ", ".join(
        f"{name} = IF(VALUES(version) >= version, VALUES({name}), {name})"
        for name in names
        if name not in KEYS[shape].split(", ") and name != "version"
    )
    values = f"INSERT INTO {shape}_row ({', '.join(names)}) VALUES (:{', :'.join(names)})"
    # The guard is assigned last: assignments run from left to right.
    return TableStatement.of(
        "upsert", f"{values} ON DUPLICATE KEY UPDATE {newer}, version = GREATEST(version, VALUES(version))"
    )


def tables_of(shape: str) -> TableMigration:
    columns = ", ".join(f"{name} {TYPES[name]}" for name in names_of(shape))
    text = f"CREATE TABLE {shape}_row ({columns}, PRIMARY KEY ({KEYS[shape]}))"
    counter = "CREATE TABLE IF NOT EXISTS checkpoint (id integer PRIMARY KEY, next_batch integer)"
    return TableMigration(1, shape, (TablePart("", text), TablePart("checkpoint", counter)))


def columns_of(shape: str, first: int, count: int) -> Columns:
    """Rows of files that follow one another, objects with a hundred counters each, as a parser leaves them."""
    at = numpy.arange(first, first + count, dtype="i8")
    place = at // COUNTERS % OBJECTS
    period = at // (OBJECTS * COUNTERS)
    values: dict[str, Any] = {
        "ne_id": Coded(place % 7, range(100, 107)) if shape == "full" else (place % 7 + 100).astype("i4"),
        "duration": numpy.full(count, 300, "i4"),
        "counter_id": (at % COUNTERS + 5_000).astype("i4"),
        "counter_value": at * 1.25,
        "cell_index": place,
        "obj_hash": (place.astype("u8") + 1) * numpy.uint64(0x9E3779B97F4A7C15),
        "version": numpy.ones(count, "i8"),
        "record_ms": 1_760_000_000_000 + period * 300_000,
    }
    if shape == "full":
        values |= {
            "record_time": Coded(
                period - period[0], [BEGIN + timedelta(minutes=5 * int(period[0] + n)) for n in (0, 1)]
            ),
            "group_code": Coded(at % COUNTERS % 12, GROUPS),
            "rat_type": Coded(place % 3, ("5GA", "4GA", "")),
            "extra_field": Coded(place, LOCATIONS),
        }
    return Columns({name: values[name] for name in names_of(shape)})


def usual(url: str, shape: str, rows: int) -> None:
    """The driver's executemany on tuples, a commit for each batch."""
    place = urlsplit(url)
    connection = pymysql.connect(
        host=place.hostname,
        port=place.port or 0,
        user=place.username,
        password=place.password or "",
        database=place.path[1:],
        autocommit=False,
    )
    names = names_of(shape)
    text = upsert_of(shape).text
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(f":{name}", "%s", 1)
    with connection.cursor() as cursor:
        for first in range(0, rows, BATCH):
            found = columns_of(shape, first, BATCH).rows(names)
            cursor.executemany(text, list(found))
            cursor.execute(CHECKPOINT.text.replace(":id", "%s"), (1,))
            connection.commit()
    connection.close()


async def units(url: str, shape: str, rows: int, batch: int, bulk: bool) -> None:
    options = MysqlOptions.of(f"{url}?bulk={'on' if bulk else 'off'}&lanes=1")
    tables, upsert = MysqlTables(options), upsert_of(shape)
    for first in range(0, rows, batch):
        steps = (Step(upsert, columns_of(shape, first, min(batch, rows - first))), Step(CHECKPOINT, ({"id": 1},), 1))
        await tables.apply(Unit(f"{shape}-{batch}-{bulk}-{first}", steps))
    tables.close()


def run(way: str, url: str, shape: str, rows: int, told: Any) -> None:
    began, used = time.monotonic(), time.process_time()
    if way == "executemany":
        usual(url, shape, rows)
    else:
        asyncio.run(units(url, shape, rows, BIG_BATCH if way == "bulk_10k" else BATCH, way != "text"))
    told.put((time.process_time() - used, time.monotonic() - began))


def server_cpu_s(server: MariaServer) -> float:
    pid = int((server.home / "mariadb.pid").read_text())
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(server: MariaServer, url: str, way: str, shape: str, rows: int) -> dict[str, object]:
    database = url.rpartition("/")[2]
    server.query(f"TRUNCATE TABLE {shape}_row", database)
    server.query("REPLACE INTO checkpoint VALUES (1, 0)", database)
    told: Any = multiprocessing.get_context("spawn").Queue()
    before = server_cpu_s(server)
    child = multiprocessing.get_context("spawn").Process(target=run, args=(way, url, shape, rows, told))
    child.start()
    client_s, wall_s = told.get()
    child.join()
    used = server_cpu_s(server) - before
    batches = server.query("SELECT next_batch FROM checkpoint", database)[0][0]
    return {
        "who": way,
        "shape": shape,
        "n": server.query(f"SELECT COUNT(*) FROM {shape}_row", database)[0][0],
        "commits": batches,
        "client_cpu_s": round(client_s, 3),
        "server_cpu_s": round(used, 3),
        "rows_per_cpu_s": round(rows / (client_s + used)),
        "rows_per_s": round(rows / wall_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=100_000, help="rows")
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    wishes = parser.parse_args()
    with MariaServer({"innodb-buffer-pool-size": "256M"}) as server, server.database() as url:
        for shape in ("full", "fixed"):
            asyncio.run(MysqlTables(MysqlOptions.of(url)).migrate(shape, [tables_of(shape)]))
            usual_rate = 0.0
            for way in WAYS:
                found = measured(server, url, way, shape, wishes.n)
                usual_rate = usual_rate or float(str(found["rows_per_cpu_s"]))
                found["times_executemany"] = round(float(str(found["rows_per_cpu_s"])) / usual_rate, 2)
                tell(found, wishes.json)


if __name__ == "__main__":
    main()
