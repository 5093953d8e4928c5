"""The source that `docs/sources.md` shows keeps the contract, on a real SQLite file."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pages import block, blocks

import headrace
from headrace.core.sources import ItemCandidate, ItemState
from headrace.ports import Source
from headrace.runtime.seams import RealClock
from headrace.tables import Statements
from headrace.testing.contracts import SourceContract, SuppliedItem
from headrace.testing.passage import Passage, RealPassage

PAGE = "docs/sources.md"
BRIEF_S = 0.5
AN_HOUR_S = 3_600.0


@dataclass(slots=True)
class ErrandSupply:
    """The page's table, filled and read by tests."""

    engine: headrace.Engine
    source: Source
    numbers: Any = field(default_factory=lambda: count(1))

    def wall(self) -> float:
        return RealClock().wall()

    async def add(self, payload: Mapping[str, object]) -> str:
        key = f"errand-{next(self.numbers)}"
        await self.engine.run("add", id=key, payload=json.dumps(payload))
        return key

    async def look(self, key: str) -> SuppliedItem:
        rows = await self.engine.rows("all_errands")
        state, attempts, error = next(
            (row[1], row[2], row[3].removeprefix("no error")) for row in rows if row[0] == key
        )
        return SuppliedItem(
            None if state == ItemState.AGAIN else ItemState(state), attempts, error.removeprefix("no error")
        )

    async def occupy(self, key: str) -> None:
        await self.source.hold(ItemCandidate(key), "another", AN_HOUR_S)

    async def sweep(self) -> None:
        """The poll shows what lost holds had."""


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Path]:
    """The files of the page, where Python finds them."""
    for language, text in blocks(PAGE):
        if language == "sql":
            path = tmp_path / text.splitlines()[0].removeprefix("-- ")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (tmp_path / "errand_source.py").write_text(block(PAGE, "python"))
    sys.path.insert(0, str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in ("errands", "errand_source"):
        sys.modules.pop(name, None)


class TestErrandSource(SourceContract):
    @pytest.fixture
    async def supply(self, shown: Path) -> AsyncIterator[ErrandSupply]:
        statements = Statements("errands", repeatable=True)
        # The statements of a package are read once, and each test has a package of its own.
        async with headrace.connect(f"sqlite:///{shown}/errands.db", tables=statements) as engine:
            import errand_source  # type: ignore[import-not-found, unused-ignore]

            yield ErrandSupply(engine, errand_source.ErrandSource(engine))

    @pytest.fixture
    def passage(self) -> Passage:
        return RealPassage(BRIEF_S)
