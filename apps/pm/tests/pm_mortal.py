"""A life of `pm all` that ends by kill -9, from inside, before or after a transaction of its choice.

Every step in the account of a file is a transaction, so the names of their statements are the points at which a process
can die: what lies between two of them (a transfer, a batch on its way to the broker, a rename) is before the next.
Lives are started by `multiprocessing`, whose server has everything imported.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog

from headrace.core.table_statements import TableMigration, TableStatement
from headrace.core.units import Unit, UnitDone
from headrace.ports import Tables
from headrace.services import Sources, read
from headrace.tables import OpenTables
from headrace_pm.kafka.settings import PREFIX
from headrace_pm.service import open_service
from headrace_pm.settings import PmSettings
from headrace_pm.work.pipeline import tables_of


@dataclass
class Point:
    """Before or after the n-th transaction with this statement; nowhere, if it has no name."""

    when: str = ""
    name: str = ""
    times: int = 1

    def reached(self, when: str, unit: Unit) -> None:
        if when == self.when and self.name in {step.statement.name for step in unit.steps}:
            self.times -= 1
            if self.times == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def __str__(self) -> str:
        return f"{self.when} {self.name} {self.times}" if self.name else "nowhere"


class MortalTables:
    """Tables whose process dies at a point."""

    def __init__(self, tables: Tables, point: Point) -> None:
        self._tables, self._point = tables, point
        self.dialect, self.features = tables.dialect, tables.features

    async def read(self, statement: TableStatement, values: Mapping[str, object]) -> list[Any]:
        return await self._tables.read(statement, values)

    async def apply(self, unit: Unit) -> UnitDone:
        self._point.reached("before", unit)
        done = await self._tables.apply(unit)
        self._point.reached("after", unit)
        return done

    async def migrate(self, owner: str, migrations: Sequence[TableMigration]) -> list[str]:
        return await self._tables.migrate(owner, migrations)


class HastyTables(MortalTables):
    """The twin: a checkpoint is a transaction of its own, before that of the rows it counts."""

    async def apply(self, unit: Unit) -> UnitDone:
        names = [step.statement.name for step in unit.steps]
        if not {"sink_advance", "counters_upsert"} <= set(names):
            return await super().apply(unit)
        at = names.index("sink_advance") + 1
        first = await super().apply(replace(unit, steps=unit.steps[:at]))
        rest = await super().apply(replace(unit, steps=unit.steps[at:]))
        return UnitDone((*(first.steps or ()), *(rest.steps or ())), ())


@asynccontextmanager
async def _opened(point: Point, is_hasty: bool, settings: PmSettings) -> AsyncIterator[OpenTables]:
    async with tables_of(settings) as tables:
        tables.tables = (HastyTables if is_hasty else MortalTables)(tables.tables, point)
        yield tables


async def _run(environment: Mapping[str, str], point: Point, is_hasty: bool) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = read(PmSettings, Sources(PREFIX, environment))
    async with open_service("all", settings, partial(_opened, point, is_hasty)) as service:
        await service.run(stop)


def live(environment: Mapping[str, str], point: Point, log: str, is_hasty: bool = False) -> None:
    """One life, until its point, or until it is asked to stop; `is_hasty`: the one of the twin."""
    with open(log, "a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 2)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(open(log, "a", encoding="utf-8")))  # noqa: SIM115
    asyncio.run(_run(environment, point, is_hasty))
