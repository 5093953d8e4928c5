"""A table of files with our tables beside it, as other programs see it: by SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from headrace.core.table_statements import Step, TableMigration, TableStatement
from headrace.core.units import Unit, UnitDone
from headrace.ports import Tables
from headrace.sources import HeldItem, ItemSettlement, ItemState
from headrace.tables import OpenTables, open_tables
from headrace.testing.passage import RealPassage
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.file_claims import FileClaims, HeldFile
from headrace_pm.tables.progress import FetchedFile, FileProgress
from headrace_pm.tables.register import FileTable, RegisteredFiles

FOLDER = ServerFolder("5GA", "h_21_u", "/Access/")
SPOOL = "here:/spool"
HANDLES = 3
OURS = (
    "file_processing_state",
    "pm_file_claim",
    "pm_file_sink",
    "pm_file_revision",
    "pm_counter_data",
    "pm_purged",
    "ne",
)
ADD = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state)"
    " VALUES ('5GA', 'h_21_u', '/Access/', '{}', {}, 'PENDING') RETURNING id"
)
Query = Callable[[str], list[tuple[Any, ...]]]


class FileWorld:
    """Tables opened several times, and a connection of somebody else."""

    def __init__(self, dialect: str, query: Query, opened: Sequence[OpenTables]) -> None:
        self.dialect, self.query, self.opened = dialect, query, opened
        self.tables = opened[0]
        # A hold or a delay that a test sees pass: what a server with a disk of its own needs, a file does not.
        self.passage = RealPassage(0.6 if dialect == "mysql" else 0.25)
        self._numbers = count()

    def clear(self) -> None:
        for table in OURS:
            self.query(f"DELETE FROM {table}")

    def add(self, size: int | None = None) -> int:
        """A file that somebody puts into the table."""
        name = f"{next(self._numbers)}.dat"
        ((number,),) = self.query(ADD.format(name, "NULL" if size is None else size))
        return int(number)

    def ago(self, minutes: float) -> str:
        if self.dialect == "sqlite":
            return f"datetime('now', '{-minutes * 60:+.0f} seconds')"
        return f"UTC_TIMESTAMP(6) - INTERVAL {minutes * 60:.0f} SECOND"

    def moment_ago(self, minutes: float) -> str:
        """As our own tables keep it."""
        if self.dialect == "sqlite":
            return f"strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now', '{-minutes * 60:+.0f} seconds')"
        return self.ago(minutes)

    def change(self, file_id: int, **columns: str) -> None:
        """By SQL, as any program may."""
        changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
        self.query(f"UPDATE file_processing_state SET {changes} WHERE id = {file_id}")

    def look(self, file_id: int, columns: str = "state, retry_count, COALESCE(error_message, '')") -> tuple[Any, ...]:
        ((found),) = self.query(f"SELECT {columns} FROM file_processing_state WHERE id = {file_id}")
        return found

    def flags(self, file_id: int) -> tuple[str, bool, bool]:
        state, in_mysql, in_kafka = self.look(file_id, "state, mysql_processed, clickhouse_processed")
        return state, bool(in_mysql), bool(in_kafka)

    def lose_holds(self) -> None:
        """Every hold has passed."""
        self.query(f"UPDATE pm_file_claim SET until = {self.moment_ago(0.05)} WHERE owner IS NOT NULL")

    def break_guard(self, name: str, guard: str, instead: str = "TRUE") -> None:
        """From here on one statement lacks a guard; NOW in it is the time as the dialect has it."""
        now = {"mysql": "UTC_TIMESTAMP(6)", "sqlite": "(SELECT now FROM pm_clock)"}[self.dialect]
        for each in self.opened:
            each.tables = BrokenTables(each.tables, name, guard.replace("NOW", now), instead)

    def claims(self, number: int = 0) -> FileClaims:
        return FileClaims(self.opened[number], SPOOL)

    async def hold(self, holder: str = "a", number: int = 0) -> tuple[HeldItem, HeldFile]:
        """The one file that waits."""
        claims = self.claims(number)
        (candidate,) = (await claims.poll(10)).candidates
        held = await claims.hold(candidate, holder, 30.0)
        assert held is not None
        return held, held.payload


def listed(name: str, size: int = 10, modified: str = "u20260101000000") -> ListedFile:
    return ListedFile(name.encode(), name, Stamp(size, modified))


A = listed("a.dat")
AGAIN = listed("a.dat", 10, "u20260101000500")


async def register(world: FileWorld, *files: ListedFile, number: int = 0) -> RegisteredFiles:
    return await FileTable(world.opened[number]).register(FOLDER, files, 5)


async def downloaded(world: FileWorld, held: HeldFile, content: bytes) -> FetchedFile:
    progress = FileProgress(world.tables, SPOOL)
    return await progress.downloaded(held, Stamp(10, "u20260101000001"), content.ljust(16), 10)


async def done(world: FileWorld, item: HeldItem, held: HeldFile) -> None:
    progress = FileProgress(world.tables, SPOOL)
    for sink in ("mysql", "kafka"):
        await progress.sink_done(held, sink)
    assert await world.claims().settle(item, ItemSettlement(ItemState.DONE, 1, 0.0))


async def completed(world: FileWorld, content: bytes) -> HeldFile:
    """Through all of it."""
    item, held = await world.hold()
    fetched = await downloaded(world, held, content)
    await done(world, item, fetched.held)
    return fetched.held


@asynccontextmanager
async def maria_world(server: MariaServer, url: str, made_by_others: str = "") -> AsyncIterator[FileWorld]:
    """`made_by_others` is the statement by which another program made the table of files before."""
    async with AsyncExitStack() as stack:
        connection = stack.enter_context(closing(server.connect(url.rpartition("/")[2])))

        def query(statement: str) -> list[tuple[Any, ...]]:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        if made_by_others:
            query(made_by_others)
        opened = [await stack.enter_async_context(open_tables(url, PM_TABLES)) for _ in range(HANDLES)]
        world = FileWorld("mysql", query, opened)
        world.clear()
        yield world


@asynccontextmanager
async def sqlite_world(path: Path) -> AsyncIterator[FileWorld]:
    url = f"sqlite:///{path}"
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_tables(url, PM_TABLES)) for _ in range(HANDLES)]
        connection = stack.enter_context(closing(apsw.Connection(str(path))))
        connection.set_busy_timeout(10_000)

        def query(statement: str) -> list[tuple[Any, ...]]:
            return list(connection.execute(statement).fetchall())

        yield FileWorld("sqlite", query, opened)


class BrokenTables:
    """Tables one statement of which lacks a guard."""

    def __init__(self, tables: Tables, name: str, guard: str, instead: str = "TRUE") -> None:
        self._tables, self._name, self._guard, self._instead = tables, name, guard, instead
        self.dialect, self.features = tables.dialect, tables.features

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Any]:
        return await self._tables.read(self._without(statement), values)

    async def apply(self, unit: Unit) -> UnitDone:
        steps = (replace(step, statement=self._without(step.statement)) for step in unit.steps)
        return await self._tables.apply(replace(unit, steps=tuple[Step, ...](steps)))

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._tables.migrate(owner, migrations)

    def _without(self, statement: TableStatement) -> TableStatement:
        if statement.name != self._name:
            return statement
        if self._guard not in statement.text:
            raise LookupError(f"{self._name} has no guard {self._guard}")
        return replace(statement, text=statement.text.replace(self._guard, self._instead))
