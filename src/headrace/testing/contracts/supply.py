"""What the contract of sources needs of a source's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headrace.core.sources import ItemState
from headrace.ports.source import Source


@dataclass(frozen=True, slots=True)
class SuppliedItem:
    """An item as its rows say: `state` is None while it waits or is held, `reason` why it is dead."""

    state: ItemState | None
    attempts: int
    reason: str = ""


class SourceSupply(Protocol):
    """What a test does to the rows of a source, beside its worker."""

    @property
    def source(self) -> Source: ...

    def wall(self) -> float:
        """The wall clock that workers and rows go by."""

    async def add(self, payload: Mapping[str, object]) -> str:
        """Make an item that waits and is due; its key."""

    async def look(self, key: str) -> SuppliedItem:
        """Read an item as it is now."""

    async def occupy(self, key: str) -> None:
        """Let another program hold an item for longer than any test takes, in the way it would: its row may still look
        as if it waited."""

    async def sweep(self) -> None:
        """Bring back what lost holds had, if the poll does not do that by itself."""
