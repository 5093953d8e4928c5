"""A worker on a SQLite file that ends itself with SIGKILL before the statement with a chosen number."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from multiprocessing.queues import SimpleQueue
from typing import Any

PRELOADED = ["pytest", "worker.main", "headrace_silver.stores.sqlite.store"]


def run_worker(arguments: list[str], environment: dict[str, str], kill_at: int | None) -> tuple[int, int | None]:
    """How many statements it had run when it ended, and its exit code."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    counts: SimpleQueue[int] = context.SimpleQueue()
    process: ForkServerProcess = context.Process(target=_run, args=(arguments, environment, kill_at, counts))
    process.start()
    count = counts.get()
    process.join()
    return count, process.exitcode


def _run(arguments: list[str], environment: dict[str, str], kill_at: int | None, counts: SimpleQueue[int]) -> None:
    import apsw

    from worker.main import main

    count = 0

    def note(cursor: Any, statement: str, bindings: Any) -> bool:
        nonlocal count
        count += 1
        if count == kill_at:
            counts.put(count)
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(watch)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = sys.stderr = nowhere
        code = main(["silver_consume", *arguments], environment)
    counts.put(count)
    sys.exit(code)
