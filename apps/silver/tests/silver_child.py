"""The worker in a process that is forked from one which has already imported everything: quick to start and to kill."""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess

PRELOADED = ["pytest", "worker.main", "headrace_silver.stores.postgres.store"]


def start_worker(arguments: list[str], environment: dict[str, str], output: str = os.devnull) -> ForkServerProcess:
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_run, args=(arguments, environment, output))
    process.start()
    return process


def _run(arguments: list[str], environment: dict[str, str], output: str) -> None:
    from worker.main import main

    with open(output, "w", encoding="utf-8") as told:
        sys.stdout = sys.stderr = told
        sys.exit(main(["silver_consume", *arguments], environment))
