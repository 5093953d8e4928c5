"""Production and shadow in one database, filled by SQL with the same rows, and what a test changes in one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.tables import open_tables
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.shadow.shadow_tables import COUNTERS, shadow_name, shadow_of
from headrace_pm.tables import PM_TABLES

SHADOW = shadow_name(COUNTERS)
# Rows by the million from the server's own sequence: elements of 20,000 rows, 100 times of 200 counters each.
FILL = Path(__file__).with_name("shadow_rows.sql").read_text("utf-8")


async def make_tables(url: str) -> None:
    async with open_tables(url, PM_TABLES), open_tables(url, shadow_of(PM_TABLES)):
        pass


def fill(connection: Any, rows: int) -> None:
    """The same rows in both, with other versions. A float is given by its digits; NULL comes every fiftieth time."""
    with connection.cursor() as cursor:
        for table, version in ((COUNTERS, 1), (SHADOW, 2)):
            cursor.execute(FILL.format(table=table, version=version, first=0, last=rows - 1))
            cursor.execute(f"ANALYZE TABLE {table}")


@contextmanager
def filled(server: MariaServer, url: str, rows: int) -> Iterator[Any]:
    """A connection to both tables, filled, without the limit of time that others have."""
    connection = server.connect(url.rpartition("/")[2])
    connection._read_timeout = None
    try:
        fill(connection, rows)
        yield connection
    finally:
        connection.close()
