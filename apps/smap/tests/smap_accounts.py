"""The parts around an account, in memory and on one thread: a ledger, a database with the real statements, a bus.

The ledger keeps the contract of the real ones (`test_smap_accounting_parts.py` says so). Every call of a part passes a
*wire*, where a test may break it: before it is carried out, or after.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import apsw
from prometheus_client import CollectorRegistry

from headrace.core.sqlite_values import python_rows, stored_values
from headrace.ports import Event
from headrace_smap.count.truth import rank
from headrace_smap.database import STATEMENTS, Row, Step
from headrace_smap.parts import SmapParts
from headrace_smap.settings import SmapSettings
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    SEALED,
    PostEnd,
    Standing,
)

START = datetime(2025, 11, 29, 10, 0, tzinfo=UTC)
Passing = Callable[[str], Awaitable[None]]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class MemoryLedger:
    """A ledger whose hash everybody may write to: `hashes[project]` has the four fields, or some of them."""

    def __init__(self) -> None:
        self.hashes: dict[str, dict[str, Any]] = {}
        self.items: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, set[str]] = defaultdict(set)
        self.marks: set[str] = set()
        self.crawls: dict[str, str] = {}
        self.life = 1

    async def open(self, project: str) -> bool:
        if self._shown(project) is not None:
            return False
        stump = {"total": 0, "done": 0, "errors": 0, **self.hashes.get(project, {})}
        stump["done"] += len(self.items[project])
        stump["errors"] += len(self.failed[project])
        self.hashes[project] = {"status": INITIALIZING, **stump}
        return True

    async def expect(self, project: str, found: int) -> Standing | None:
        shown, crawl = self._shown(project), self.crawls.get(project, "")
        if shown is None or rank(shown["status"]) < 0:
            return self._standing(project)
        if crawl == CRAWL_OPEN or (not crawl and shown["status"] != DONE):
            self.crawls[project] = CRAWL_OPEN
            shown.update(status=CRAWLING, total=max(shown.get("total", 0), found + 1))
        elif shown["status"] in (PROCESSING_WAIT, PROCESSING):
            shown["total"] = max(shown.get("total", 0), found)
        return self._standing(project)

    async def seal(self, project: str, total: int | None) -> Standing | None:
        shown = self._shown(project)
        if shown is None:
            return None
        wanted = shown.get("total", 0) if total is None else total
        early = shown["status"] == DONE and shown.get("done", 0) < wanted
        if rank(shown["status"]) >= 0 and not self._sealed(project):
            shown["total"] = max(wanted, len(self.items[project]))
            if shown["status"] not in SEALED or early:
                shown["status"] = PROCESSING_WAIT
        elif shown["status"] in (PROCESSING_WAIT, PROCESSING):
            shown["total"] = max(shown.get("total", 0), wanted)
        self.crawls[project] = CRAWL_SEALED
        return self._crossed(project)

    async def settle(self, project: str, ends: Sequence[PostEnd]) -> Standing | None:
        shown = self._shown(project)
        if shown is None:
            return None
        new, lifted_or_failed, surplus = self._count(project, ends)
        if new:
            shown["done"] = shown.get("done", 0) + new
        if lifted_or_failed:
            shown["errors"] = max(0, shown.get("errors", 0) + lifted_or_failed)
        if ends and shown["status"] == PROCESSING_WAIT and self._sealed(project):
            shown["status"] = PROCESSING
        return self._crossed(project, new=new, surplus=surplus)

    async def tally(self, project: str) -> Standing | None:
        return self._standing(project)

    async def tallies(self, projects: Sequence[str]) -> list[Standing | None]:
        return [self._standing(project) for project in projects]

    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        lost, was_sealed = self._shown(project) is None, self._sealed(project)
        counted, failed = len(self.items[project]), len(self.failed[project])
        shown = self.hashes.setdefault(project, {})
        others, others_failed = known.done - known.counted, known.errors - known.failed
        if lost:
            # A stump counts what others did since the loss.
            others, others_failed = others + shown.get("done", 0), others_failed + shown.get("errors", 0)
        elif not known.items_lost:
            others = max(others, shown.get("done", 0) - counted, 0)
            others_failed = max(others_failed, shown.get("errors", 0) - failed, 0)
        least = (shown.get("done", 0), shown.get("errors", 0)) if known.items_lost else (0, 0)
        if known.ours:
            self.marks.add(project)
        if known.crawl == CRAWL_SEALED or not self.crawls.get(project):
            self.crawls[project] = known.crawl or self.crawls.get(project, "")
        is_open = self.crawls[project] == CRAWL_OPEN
        status = CRAWLING if is_open and known.status in SEALED else known.status
        if status == DONE or (status in SEALED and not was_sealed):
            shown["total"] = known.total
        elif lost or "total" not in shown or (status in SEALED) == self._sealed(project):
            shown["total"] = max(shown.get("total", 0), known.total)
        if rank(status) > rank(shown.get("status")):
            shown["status"] = status
        new, _, surplus = self._count(project, ends)
        shown["done"] = max(least[0], len(self.items[project]) + others)
        shown["errors"] = max(least[1], len(self.failed[project]) + others_failed)
        if shown["status"] == DONE != status and known.crawl == CRAWL_SEALED and shown["done"] < known.total:
            shown["status"] = status
        standing = self._standing(project, new=new, surplus=surplus)
        assert standing is not None
        return standing

    async def projects(self) -> list[str]:
        return sorted(self.hashes)

    async def era(self) -> str:
        return f"life {self.life}"

    async def forget(self, project: str) -> None:
        for part in (self.hashes, self.items, self.failed, self.crawls):
            part.pop(project, None)
        self.marks.discard(project)

    def picture(self) -> Any:
        """Everything as it is now, for `lose`."""
        hashes = {project: dict(shown) for project, shown in self.hashes.items()}
        sets = [{project: set(names) for project, names in part.items()} for part in (self.items, self.failed)]
        return hashes, *sets, set(self.marks), dict(self.crawls)

    def lose(self, picture: Any) -> None:
        """A restart that brings back an earlier moment."""
        hashes, items, failed, marks, crawls = picture
        self.flush()
        self.hashes.update({project: dict(shown) for project, shown in hashes.items()})
        self.items.update({project: set(names) for project, names in items.items()})
        self.failed.update({project: set(names) for project, names in failed.items()})
        self.marks.update(marks)
        self.crawls.update(crawls)
        self.life += 1

    def flush(self) -> None:
        for part in (self.hashes, self.items, self.failed, self.marks, self.crawls):
            part.clear()

    def _shown(self, project: str) -> dict[str, Any] | None:
        shown = self.hashes.get(project)
        return shown if shown and "status" in shown else None

    def _sealed(self, project: str) -> bool:
        shown = self._shown(project)
        return shown is not None and shown["status"] in SEALED and self.crawls.get(project) != CRAWL_OPEN

    def _count(self, project: str, ends: Sequence[PostEnd]) -> tuple[int, int, int]:
        items, failed, total = self.items[project], self.failed[project], self.hashes[project].get("total", 0)
        new = errors = 0
        surplus: set[str] = set()
        for end in sorted(ends, key=lambda end: not end.ok):
            if end.item not in items:
                if self._sealed(project) and len(items) >= total:
                    surplus.add(end.item)
                    continue
                items.add(end.item)
                new += 1
                if not end.ok:
                    failed.add(end.item)
                    errors += 1
            elif end.ok and end.item in failed:
                failed.remove(end.item)
                errors -= 1
        return new, errors, len(surplus)

    def _crossed(self, project: str, **more: Any) -> Standing | None:
        shown, crossed = self.hashes[project], False
        reached = self._sealed(project) and shown.get("done", 0) >= shown.get("total", 0)
        if reached and shown["status"] != DONE:
            shown["status"] = DONE
            self.marks.add(project)
            crossed = True
        return self._standing(project, crossed=crossed, **more)

    def _standing(self, project: str, **more: Any) -> Standing | None:
        shown = self._shown(project)
        if shown is None:
            return None
        return Standing(
            **shown,
            counted=len(self.items[project]),
            failed=len(self.failed[project]),
            ours=project in self.marks,
            crawl=self.crawls.get(project, ""),
            whole=len(shown) == 4,
            **more,
        )


class InlineDatabase:
    """SQLite in memory, each call a transaction at once; `twins` are statements put in the place of others."""

    def __init__(self, twins: Mapping[str, str] | None = None) -> None:
        self.connection = apsw.Connection(":memory:")
        named = {name: statement.text for name, statement in STATEMENTS.named("sqlite").items()}
        self._texts = {**named, **(twins or {})}
        for migration in STATEMENTS.migrations("sqlite"):
            for part in migration.parts:
                self.connection.execute(part.text)

    async def rows(self, name: str, **values: object) -> list[Row]:
        return (await self.transact((name, values)))[0]

    async def transact(self, *steps: Step) -> list[list[Row]]:
        if len(steps) == 1:
            return [self._rows(*steps[0])]
        with self.connection:
            return [self._rows(name, values) for name, values in steps]

    async def close(self) -> None:
        self.connection.close()

    def empty(self) -> None:
        for table in ("smap_item", "smap_project", "projects"):
            self.connection.execute(f"DELETE FROM {table}")

    def one(self, text: str, *values: object) -> Any:
        return self.connection.execute(text, values).fetchone()

    def _rows(self, name: str, values: Mapping[str, object]) -> list[Row]:
        found = self.connection.execute(self._texts[name], stored_values(values))
        try:
            description = found.get_description()
        except apsw.ExecutionCompleteError:
            return []
        return python_rows(description, found.fetchall())


@dataclass
class MemoryBus:
    """Remembers what was published; `on_publish` is told as well."""

    published: list[Event] = field(default_factory=list)
    on_publish: Callable[[Event], None] | None = None

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        self.published += events
        for event in events:
            if self.on_publish:
                self.on_publish(event)
        return [True for _ in events]


class Wired:
    """A part whose calls pass a wire, under their names."""

    def __init__(self, part: Any, passing: Passing) -> None:
        self._part, self._passing = part, passing

    def __getattr__(self, name: str) -> Any:
        method, passing = getattr(self._part, name), self._passing

        async def call(*values: Any, **named: Any) -> Any:
            await passing(f"before {name}")
            answer = await method(*values, **named)
            await passing(f"after {name}")
            return answer

        return call


@dataclass
class MemoryParts:
    """What survives a process: the parts of every process are made from it."""

    database: Any = field(default_factory=InlineDatabase)
    ledger: Any = field(default_factory=MemoryLedger)
    bus: Any = field(default_factory=MemoryBus)
    settings: SmapSettings = field(default_factory=SmapSettings)

    def opened(self, passing: Passing | None = None) -> SmapParts:
        survivors = [self.database, self.ledger, self.bus]
        database, ledger, bus = [Wired(part, passing) for part in survivors] if passing else survivors
        engine: Any = SimpleNamespace(leases=None)
        blobs: Any = None
        return SmapParts(self.settings, engine, bus, ledger, blobs, database, CollectorRegistry())
