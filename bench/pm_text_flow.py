"""The text's own shape: fetched once, held whole in memory, read by attributes, written row by row.

Ten connections fetch side by side. A file is read into batches of 1,000; five batches at a time are written, each row
by a statement of its own, and each row is a JSON message. The states of a file are written as the text writes them, one
statement each. When both sinks are done five threads move files in two steps. The text's waits between its stages (10 s
and 30 s) are left out, and each batch is one transaction: without that every row would be a commit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pm_usual_parts import (
    FIRST_STOP,
    INSERT,
    LAST_STOP,
    PATH,
    AttributeReader,
    FlowOrders,
    Row,
    RowProducer,
    ThreadsOwn,
    as_values,
    fetched,
    in_batches,
    listed,
    logged_in,
)

DOWNLOADS, PARSERS, WRITERS, MOVERS = 10, 5, 5, 5
REGISTER = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state) "
    "VALUES ('5GA', 'server', %s, %s, 'PENDING')"
)
STATE = "UPDATE file_processing_state SET state = %s WHERE file_name = %s"
PROCESSED = "UPDATE file_processing_state SET mysql_processed = 1, clickhouse_processed = 1 WHERE file_name = %s"


def run(orders: FlowOrders, begin: Callable[[], None]) -> None:
    """Every file, until it is in `Done/`."""
    TextFlow(orders, begin).run()


class TextFlow:
    """One process with the text's pools."""

    def __init__(self, orders: FlowOrders, begin: Callable[[], None]) -> None:
        self._orders, self._begin = orders, begin
        self._reader, self._producer = AttributeReader(Path(orders.dictionaries)), RowProducer(orders.topic)
        self._own = ThreadsOwn(orders.mysql)
        self._clients: SimpleQueue[Any] = SimpleQueue()
        for _ in range(DOWNLOADS):
            self._clients.put(logged_in(orders.ftp))
        self._writers, self._parsers = ThreadPoolExecutor(2 * WRITERS), ThreadPoolExecutor(PARSERS)

    def run(self) -> None:
        self._begin()
        with self._client() as client:
            paths = listed(client, PATH)
        with self._own.mysql.cursor() as cursor:
            cursor.executemany(REGISTER, [(PATH, path) for path in paths])
            self._own.mysql.commit()
        with ThreadPoolExecutor(DOWNLOADS) as downloads, ThreadPoolExecutor(MOVERS) as movers:
            read = [downloads.submit(self._download, path) for path in paths]
            handled = [self._parsers.submit(self._handle, *each.result()) for each in as_completed(read)]
            moved = [movers.submit(self._move, each.result()) for each in as_completed(handled)]
            for each in moved:
                each.result()
        self._parsers.shutdown()
        self._writers.shutdown()

    def _download(self, path: str) -> tuple[str, bytes]:
        self._state(STATE, "DOWNLOADING", path)
        with self._client() as client:
            content = fetched(client, path)
        self._state(STATE, "PARSING", path)
        return path, content

    def _handle(self, path: str, content: bytes) -> str:
        for work in [
            self._writers.submit(write, rows)
            for rows in in_batches(self._reader.rows(content))
            for write in (self._insert, self._producer.send)
        ]:
            work.result()
        self._state(PROCESSED, path)
        return path

    def _insert(self, rows: list[Row]) -> None:
        with self._own.mysql.cursor() as cursor:
            for row in rows:
                cursor.execute(INSERT, as_values(row))
        self._own.mysql.commit()

    def _move(self, path: str) -> None:
        name = path.rpartition("/")[2]
        with self._client() as client:
            client.rename(path, PATH + FIRST_STOP + name)
            client.rename(PATH + FIRST_STOP + name, PATH + LAST_STOP + name)
        self._state(STATE, "MOVED", path)

    def _state(self, statement: str, *values: str) -> None:
        with self._own.mysql.cursor() as cursor:
            cursor.execute(statement, values)
        self._own.mysql.commit()

    @contextmanager
    def _client(self) -> Any:
        client = self._clients.get()
        try:
            yield client
        finally:
            self._clients.put(client)
