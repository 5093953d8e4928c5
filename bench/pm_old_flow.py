"""The design that the text replaces: two flows, and every file fetched twice and read twice.

Flow 1 lists `Others/`, logs in for each file, fetches it, and 20 threads make a JSON message for each of its rows; when
all are acknowledged the file goes to `ClickHouse/`. Flow 2 finds it there, logs in, fetches and reads it again, inserts
by executemany, 1,000 rows at a time, sends them to Kafka once more, and moves the file to `Done/`. Each flow is a
process; files are fetched one after the other, as the text says of it.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from pathlib import Path

from pm_usual_parts import (
    FIRST_STOP,
    INSERT,
    LAST_STOP,
    PATH,
    AttributeReader,
    FlowOrders,
    RowProducer,
    ThreadsOwn,
    as_values,
    fetched,
    in_batches,
    listed,
    logged_in,
)

FIRST_THREADS, SECOND_THREADS = 20, 5
LOOK_S = 0.05


def run(orders: FlowOrders, begin: Callable[[], None]) -> None:
    """Both flows, until every file is in `Done/`."""
    context = multiprocessing.get_context("spawn")
    # Two flows and whoever starts them.
    together = context.Barrier(3)
    flows = [context.Process(target=flow, args=(orders, together)) for flow in (first_flow, second_flow)]
    for each in flows:
        each.start()
    together.wait()
    begin()
    together.wait()
    for each in flows:
        each.join()
        assert each.exitcode == 0


def first_flow(orders: FlowOrders, together: Barrier) -> None:
    reader, producer = AttributeReader(Path(orders.dictionaries)), RowProducer(orders.topic)
    _wait(together)

    def handle(content: bytes) -> None:
        for rows in in_batches(reader.rows(content)):
            producer.send(rows)

    _follow(orders, PATH, PATH + FIRST_STOP, handle, FIRST_THREADS)


def second_flow(orders: FlowOrders, together: Barrier) -> None:
    reader, own = AttributeReader(Path(orders.dictionaries)), ThreadsOwn(orders.mysql)
    producer = RowProducer(orders.topic)
    _wait(together)

    def handle(content: bytes) -> None:
        with own.mysql.cursor() as cursor:
            for rows in in_batches(reader.rows(content)):
                cursor.executemany(INSERT, [as_values(row) for row in rows])
                own.mysql.commit()
                producer.send(rows)

    _follow(orders, PATH + FIRST_STOP, PATH + LAST_STOP, handle, SECOND_THREADS)


def _wait(together: Barrier) -> None:
    """Once to say that it is ready, and once until it may begin."""
    together.wait()
    together.wait()


def _follow(orders: FlowOrders, source: str, target: str, handle: Callable[[bytes], None], threads: int) -> None:
    """Take files as they appear: fetched one after the other, handled side by side, moved when they are done."""
    control = logged_in(orders.ftp)
    seen: dict[str, Future[None]] = {}
    moved: set[str] = set()
    with ThreadPoolExecutor(threads) as pool:
        while len(moved) < orders.files:
            for path in listed(control, source):
                if path not in seen:
                    client = logged_in(orders.ftp)
                    seen[path] = pool.submit(handle, fetched(client, path))
                    client.quit()
            for path in [path for path, each in seen.items() if path not in moved and each.done()]:
                seen[path].result()
                control.rename(path, target + path.rpartition("/")[2])
                moved.add(path)
            time.sleep(LOOK_S)
    control.quit()
