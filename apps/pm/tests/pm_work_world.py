"""Small parts for tests of the work on files: a clock, tables and events that do as they are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from headrace.tables import OpenTables
from headrace_pm.ftp.scanner import Scanned
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.work.events import PipelineEvents


class Hands:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class ToldEvents(PipelineEvents):
    """Counts what it is told."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()

    def scanned(self, folder: ServerFolder, scanned: Scanned) -> None:
        self.told[folder.server_key] += 1

    def scan_failed(self, folder: ServerFolder) -> None:
        self.told[f"{folder.server_key} failed"] += 1

    def emptied(self, folders: int) -> None:
        self.told["emptied"] = folders

    def moved(self, outcome: str) -> None:
        self.told[outcome] += 1

    def purged(self, count: int) -> None:
        self.told["purged"] += count


class RowsByName:
    """Tables that answer what was put there."""

    def __init__(self, **rows: Sequence[tuple[Any, ...]]) -> None:
        self.by_name = dict(rows)

    async def rows(self, name: str, **_values: object) -> list[tuple[Any, ...]]:
        return list(self.by_name.get(name, ()))


def opened(rows: RowsByName) -> OpenTables:
    return cast("OpenTables", rows)
