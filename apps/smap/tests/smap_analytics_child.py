"""The analytics service in processes forked from one which has imported everything: quick to start and to kill."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PRELOADED = [
    "pytest",
    "aio_pika",
    "obstore",
    "psycopg",
    "redis.asyncio",
    "headrace_smap.analytics.service",
    "headrace.adapters.postgres.store",
    "headrace_smap.ledger.redis_ledger",
]


class Workers:
    """So many processes; each that is lost can be replaced."""

    def __init__(self, environment: Mapping[str, str], count: int, log: Path) -> None:
        self._environment, self._log = dict(environment), log
        self._processes = [self._start() for _ in range(count)]
        self.deaths = 0

    def kill(self, number: int) -> None:
        """With no chance to clean up, and another in its place."""
        self._processes[number].kill()
        self._processes[number].join()
        self.replace_dead()

    def replace_dead(self) -> None:
        for number, process in enumerate(self._processes):
            if process.exitcode is not None:
                self.deaths += 1
                self._processes[number] = self._start()

    def said(self) -> str:
        """All that the processes logged."""
        return self._log.read_text("utf-8") if self._log.exists() else ""

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()

    def _start(self) -> ForkServerProcess:
        context = get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        process = context.Process(target=_run, args=(self._environment, str(self._log)), daemon=True)
        process.start()
        return process


def _run(environment: dict[str, str], log: str) -> None:
    os.environ.update(environment)
    sys.path[:0] = environment.get("PYTHONPATH", "").split(os.pathsep)
    told = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(told, 1)
    os.dup2(told, 2)
    asyncio.run(_serve(environment))


async def _serve(environment: dict[str, str]) -> None:
    from headrace_smap.analytics.service import AnalyticsService
    from headrace_smap.count.keeper import keeping
    from headrace_smap.frame import FRAME
    from headrace_smap.parts import open_parts

    stop = asyncio.Event()
    async with open_parts(FRAME.load(environment)) as parts, keeping(parts, stop):
        service = AnalyticsService(parts)
        await service.prepare()
        await service.run(stop)
