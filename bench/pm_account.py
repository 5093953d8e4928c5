"""What does the account of a file cost, in a table with many rows?

Registering a folder's names, asking which are unknown, a poll, a hold with its settlement. Beside them the text's way
to register, which asks for each name and saves each row; and the raw limit, the rows alone in one statement.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from typing import Any

from headrace.sources import ItemSettlement, ItemState
from headrace.tables import OpenTables, open_tables
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.file_claims import FileClaims
from headrace_pm.tables.register import FileTable

SERVER = {"innodb-buffer-pool-size": "512M", "innodb-log-file-size": "512M"}
HOLDS = 50
COLUMNS = "(system_type, ftp_server_key, ftp_path, file_name, file_size, state)"
PIECE = 50_000
FILL = (
    f"INSERT INTO file_processing_state {COLUMNS} SELECT ELT(1 + seq % 3, '5GA', '4GA', 'ONT'), 'h_21_u', '/Access/',"
    " CONCAT('gNodeB_', seq, '.dat'), seq, IF(seq % 100, 'MOVED', 'PENDING') FROM seq_{}_to_{}",
    "INSERT INTO pm_file_claim (file_id, left_as, due_at)"
    " SELECT id, state, UTC_TIMESTAMP(6) FROM file_processing_state WHERE file_size BETWEEN {} AND {}",
    "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)"
    " SELECT id, 1, file_size, '', UTC_TIMESTAMP(6) FROM file_processing_state WHERE file_size BETWEEN {} AND {}",
)
ASK = (
    "SELECT COUNT(*) FROM file_processing_state"
    " WHERE system_type = '5GA' AND ftp_server_key = 'h_21_u' AND ftp_path = %s AND file_name = %s"
)
# The driver writes it for many rows, because nothing but values is in it.
SAVE = f"INSERT INTO file_processing_state {COLUMNS} VALUES (%s, %s, %s, %s, %s, %s)"


class AccountBench:
    """On a MariaDB of its own; `known` rows are there, one of a hundred waits."""

    def __init__(self, names: int, known: int) -> None:
        self.names, self.known = names, known
        self._folders = 0

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        with MariaServer(SERVER) as server:
            yield from asyncio.run(self._measured(server, rounds))

    async def _measured(self, server: MariaServer, rounds: int) -> list[dict[str, object]]:
        async with open_tables(server.url, PM_TABLES) as tables:
            for first in range(1, self.known + 1, PIECE):
                for statement in FILL:
                    server.query(statement.format(first, min(first + PIECE - 1, self.known)))
            table = FileTable(tables)
            found = [await self._best("register, all new", rounds, lambda: self._register(table))]
            folder, files = self._folder(), self._files()
            await table.register(folder, files, 3)
            found.append(await self._best("register, all known", rounds, lambda: table.register(folder, files, 3)))
            names = [file.text for file in files]
            found.append(await self._best("ask which are unknown", rounds, lambda: table.unknown(folder, names)))
            found.append(self._line("text: ask and save each", self.names, self._one_by_one(server)))
            found.append(self._line("raw limit: the rows alone", self.names, self._rows_alone(server)))
            return found + await self._held(tables, rounds)

    async def _held(self, tables: OpenTables, rounds: int) -> list[dict[str, object]]:
        claims = FileClaims(tables, "bench:/spool")
        polled = await self._best("poll for 10", rounds, lambda: claims.poll(10))
        candidates = (await claims.poll(HOLDS)).candidates
        began = time.perf_counter()
        for candidate in candidates:
            held = await claims.hold(candidate, "bench", 30.0)
            assert held is not None
            assert await claims.settle(held, ItemSettlement(ItemState.DEAD, 1, time.time()))
        return [polled, self._line("hold and settle", len(candidates), time.perf_counter() - began)]

    def _folder(self) -> ServerFolder:
        self._folders += 1
        return ServerFolder("5GA", "h_21_u", f"/Access/{self._folders}/")

    def _files(self) -> list[ListedFile]:
        texts = (f"gNodeB_HN_2026_{number}.dat" for number in range(self.names))
        return [ListedFile(text.encode(), text, Stamp(1, "u20260101000000")) for text in texts]

    async def _register(self, table: FileTable) -> None:
        assert len((await table.register(self._folder(), self._files(), 3)).new) == self.names

    async def _best(self, who: str, rounds: int, call: Callable[[], Awaitable[Any]]) -> dict[str, object]:
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            await call()
            took.append(time.perf_counter() - began)
        return self._line(who, 1 if who.startswith("poll") else self.names, min(took))

    def _one_by_one(self, server: MariaServer) -> float:
        path = self._folder().path
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            began = time.perf_counter()
            connection.begin()
            for file in self._files():
                cursor.execute(ASK, (path, file.text))
                cursor.execute(SAVE, _row(path, file))
            connection.commit()
            return time.perf_counter() - began

    def _rows_alone(self, server: MariaServer) -> float:
        path = self._folder().path
        with closing(server.connect()) as connection, connection.cursor() as cursor:
            rows = [_row(path, file) for file in self._files()]
            began = time.perf_counter()
            connection.begin()
            cursor.executemany(SAVE, rows)
            connection.commit()
            return time.perf_counter() - began

    def _line(self, who: str, count: int, seconds: float) -> dict[str, object]:
        each = round(seconds / max(count, 1) * 1_000_000, 1)
        return {"part": "account", "who": who, "rows": self.known, "ms": round(seconds * 1_000, 1), "us_each": each}


def _row(path: str, file: ListedFile) -> tuple[object, ...]:
    return "5GA", "h_21_u", path, file.text, file.stamp.size, "PENDING"
