"""Tables of pm and of its operators in a fresh database, and small files to import."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pymysql

from headrace.tables import OpenTables, open_tables
from headrace_pm.operators import OPERATOR_TABLES
from headrace_pm.tables import PM_TABLES

DAY = datetime(2026, 1, 1, tzinfo=UTC)
QUARTER = timedelta(minutes=15)
FILES = {
    "ftp_server": "id,system_type,host,port,user_name,password_ref\n1,5GA,10.0.0.1,21,pm,env:PM_FTP\n",
    "ftp_path": "id,server_id,path\n1,1,/Access/\n2,1,/Core/\n",
    "ne": "id,name\n1,gnb-1\n2,gnb-2\n",
    "counter_cat": "counter_id,object_level,group_code\n101,3,RRC\n102,3,RRC\n103,4,RRC\n",
    "extra_field_column": "code,level_id\nrat_type,3\n",
    "node_function": "name,rat_type\ngNodeB,NR\n",
    "pm_kpi": "name,formula,unit\nrrc_success,100 * c101 / c102,%\n",
}


@asynccontextmanager
async def operator_tables(url: str) -> AsyncIterator[OpenTables]:
    async with open_tables(url, [PM_TABLES, OPERATOR_TABLES]) as tables:
        yield tables


def query(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """What another program does in the same database; the rows of the last statement."""
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as file:
            file.set_busy_timeout(10_000)
            return [list(file.execute(statement)) for statement in statements][-1]
    parts = urlsplit(url)
    place = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}
    with closing(pymysql.connect(**place, database=parts.path[1:], autocommit=True)) as line, line.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def written(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """A folder with these files; none of it is left from before."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text, "utf-8")
    return folder


async def counted(
    tables: OpenTables,
    ne_id: int,
    quarters: Iterable[int],
    values: Mapping[int, float | None],
    duration: int = 900,
) -> None:
    """Rows of one element in these quarters; each counter at two objects, one of which counted nothing."""
    rows = [
        {
            "ne_id": ne_id,
            "record_time": DAY + quarter * QUARTER + timedelta(seconds=7),
            "duration": duration,
            "counter_id": counter,
            "counter_value": value if place == 1 or value is None else 0.0,
            "cell_index": place,
            "obj_hash": place,
            "version": 1,
            "group_code": "G",
            "rat_type": "NR",
            "extra_field": "{}",
        }
        for quarter in quarters
        for counter, value in values.items()
        for place in (1, 2)
    ]
    async with tables.transaction() as tx:
        tx.run_many("counters_upsert", rows)


async def elements(tables: OpenTables, *names: str) -> None:
    async with tables.transaction() as tx:
        tx.run_many("ne_add", [{"id": number, "name": name} for number, name in enumerate(names, 1)])
