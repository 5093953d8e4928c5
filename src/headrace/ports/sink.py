"""Sinks: where effects go, at most once per effect key.

A fence stops a zombie, it does not stop a retry. So a sink has two operations, never mixed on one key: `once`, where
the first application wins whatever the fences, and `put`, where the highest fence wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Effect:
    """Who wants an effect: the key is the same in every attempt and redrive, the fence is the holder's."""

    key: str
    fence: int


@dataclass(frozen=True, slots=True)
class Change:
    """One statement with its values: `?` and values in order, or `:name` and values by name, whatever the database.

    PostgreSQL's operators with a question mark are written with two: `data ?? 'key'`, `data ??| :keys`.
    """

    statement: str
    values: Mapping[str, Any] | Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """`first`: this call made the change. `answer`: the rows it returned, or those of the change that stands."""

    first: bool
    answer: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class EffectView:
    """One effect key as people see it. `refused` counts repeats and late holders that changed nothing."""

    key: str
    operation: str
    fence: int
    refused: int
    applied_at: float


class Sink(Protocol):
    @property
    def name(self) -> str:
        """For people; a URL has its password redacted."""

    @property
    def guarantee(self) -> str:
        """transactional, conditional, deduplicating or unfenced."""

    async def once(self, effect: Effect, change: Change) -> Applied:
        """Apply the change if this key has none yet; else give the first answer, whatever the fence.

        `ClaimLost` if the fence is revoked: a frozen holder cannot even make a first write. Key,
        change and the check of the fence are one transaction. A key that was `put` is a `Conflict`. A change that
        the sink's database refuses is a `CallerError` and leaves nothing, not even its key. After `Unknown` the same
        call again is right.
        """

    async def put(self, effect: Effect, change: Change) -> Applied:
        """Apply the change unless a higher fence put this key before: then nothing changes, `first` is False, and the
        answer is that of the change that stands. The same fence again is applied again.

        `ClaimLost` if the fence is revoked. A key that was applied `once` is a `Conflict`.
        """

    async def revoke(self, fences: Sequence[int]) -> None:
        """Once this returned, no write under these fences is committed any more, also none that had begun.

        Called before the handler of a takeover runs. Idempotent.
        """

    async def effects(self, prefix: str, after: str, limit: int) -> Sequence[EffectView]:
        """Effect keys that start with `prefix`, in order, after one."""

    async def close(self) -> None:
        """Give everything back. Idempotent; a use after it opens the sink again."""
