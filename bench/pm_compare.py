"""How long does it take to find one difference between two tables of counters?

`headrace` is the whole comparison, of equal tables and with one value changed by its last bit. Beside it the usual way,
a checksum of all columns as text, grouped alike, on a tenth of the elements; and the raw limit: a number of every row
summed up, nothing said of anything else. All on several connections.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from headrace.tables import open_tables
from headrace.testing.rig.mariadb import DATABASE, MariaServer
from headrace_pm.shadow.comparison import PARALLEL, CompareScope, compared
from headrace_pm.shadow.shadow_tables import COUNTERS, shadow_name, shadow_of
from headrace_pm.tables import PM_TABLES

ROWS_SQL = Path(__file__).parents[1] / "apps" / "pm" / "tests" / "shadow_rows.sql"
ROWS_PER_ELEMENT = 20_000
PIECE = 1_000_000
# Tables of some gigabytes do not fit into it, as in production.
SERVER = {"innodb-buffer-pool-size": "512M", "innodb-flush-log-at-trx-commit": "0", "innodb-log-file-size": "512M"}
TABLES = (COUNTERS, shadow_name(COUNTERS))
RAW = "SELECT SUM(obj_hash) FROM {} WHERE ne_id BETWEEN {} AND {}"
USUAL = (
    "SELECT ne_id, record_time, COUNT(*), SUM(CRC32(CONCAT_WS('|', duration, counter_id, counter_value, group_code,"
    " rat_type, cell_index, obj_hash, extra_field))) FROM {} WHERE ne_id BETWEEN {} AND {} GROUP BY ne_id, record_time"
)


class CompareBench:
    """Two tables with the same rows on a MariaDB of their own."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._elements = -(-rows // ROWS_PER_ELEMENT)

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        with MariaServer(SERVER) as server:
            self._server = server
            asyncio.run(_make(server.url))
            began = time.perf_counter()
            with ThreadPoolExecutor(2) as threads:
                list(threads.map(self._fill, TABLES))
            yield self._line("filled", time.perf_counter() - began)
            yield self._line("headrace, equal", self._best(lambda: self._compare(0), rounds))
            self._plant()
            yield self._line("headrace, one difference", self._best(lambda: self._compare(1), rounds))
            tenth = max(1, self._elements // 10)
            took = self._side_by_side(USUAL, tenth) * self._elements / tenth
            yield self._line("CRC32 of all columns as text, extrapolated from a tenth", took)
            yield self._line("raw limit: one number of each row", self._side_by_side(RAW, self._elements))

    def _line(self, who: str, seconds: float) -> dict[str, object]:
        rate = round(2 * self.rows / seconds)
        return {"who": who, "rows_in_each": self.rows, "seconds": round(seconds, 2), "rows_per_s": rate}

    def _fill(self, table: str) -> None:
        text = ROWS_SQL.read_text("utf-8")
        with closing(self._server.connect(DATABASE)) as connection, connection.cursor() as cursor:
            connection._read_timeout = None
            for first in range(0, self.rows, PIECE):
                last = min(first + PIECE, self.rows) - 1
                cursor.execute(text.format(table=table, version=1, first=first, last=last))
            cursor.execute(f"ANALYZE TABLE {table}")

    def _compare(self, differences: int) -> Awaitable[None]:
        async def run() -> None:
            found = await compared(self._server.url, CompareScope())
            assert len(found.differences) == differences, found
            assert (found.production_rows, found.shadow_rows) == (self.rows, self.rows)

        return run()

    def _best(self, work: Callable[[], Awaitable[None]], rounds: int) -> float:
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            asyncio.run(_awaited(work()))
            took.append(time.perf_counter() - began)
        return min(took)

    def _plant(self) -> None:
        middle = f"ne_id = {1 + self._elements // 2} AND record_time = '2026-01-01 02:30:00' AND counter_id = 1001"
        changed = "counter_value = counter_value * 1.0000000000000002"
        self._server.query(f"UPDATE {TABLES[1]} SET {changed} WHERE {middle}")

    def _side_by_side(self, query: str, elements: int) -> float:
        """Both tables, cut as the comparison cuts them."""
        step = max(1, 250_000 // ROWS_PER_ELEMENT)
        ranges = [
            (table, first, min(first + step - 1, elements))
            for first in range(1, elements + 1, step)
            for table in TABLES
        ]
        began = time.perf_counter()
        with ThreadPoolExecutor(PARALLEL) as threads:
            list(threads.map(lambda each: self._ask(query.format(*each)), ranges))
        return time.perf_counter() - began

    def _ask(self, query: str) -> list[Any]:
        with closing(self._server.connect(DATABASE)) as connection, connection.cursor() as cursor:
            connection._read_timeout = None
            cursor.execute(query)
            return list(cursor.fetchall())


async def _awaited(work: Awaitable[None]) -> None:
    await work


async def _make(url: str) -> None:
    async with open_tables(url, PM_TABLES), open_tables(url, shadow_of(PM_TABLES)):
        pass
