"""Fencing tokens in blocks, and the resources that one client works on.

A block of tokens is bought by one compare-and-set on `lock_seq` and handed out in memory. Blocks are disjoint and rise,
so a token whose block is the newest is above every token of every other client: that is what a grant confirms while it
holds its row, by a serial read of `lock_seq` or by buying the block only then. Within one client tokens are drawn in
order, and grants of a resource follow each other, so among its own grants they rise too.

A block whose compare-and-set has an unknown outcome is left out: `last_seq` does not say who wrote it.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from headrace.adapters.cassandra.decisions import CONTENTION, decisive
from headrace.adapters.cassandra.lock_rows import LockRow
from headrace.adapters.cassandra.session import CassandraSession, CqlRows
from headrace.core.errors import Busy, Unknown

PURCHASES_MAX = 12
RESOURCES_MAX = 10_000
"""Resources that a client remembers. One that is forgotten costs the rest of its block, and nothing else."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the end of its block; `bought`: that block was bought for it, and not some time before."""

    value: int
    block_end: int
    bought: bool


@dataclass(slots=True)
class Resource:
    """What one client knows of a resource: the rest of its block, the row of the grant it reported last, and rows
    that it wrote without knowing yet whether they may be reported. `turn` admits one grant at a time."""

    name: str
    next: int = 1
    end: int = 0
    granted: LockRow | None = None
    unsure: tuple[LockRow, ...] = ()
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    purchase: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: int = 0

    def has(self, above: int) -> bool:
        """Whether a token above this one is left of the block."""
        return self.next <= self.end and self.end > above


class Resources:
    """The resources of one client, the most recently used ones."""

    def __init__(self, resources_max: int = RESOURCES_MAX) -> None:
        self._found: OrderedDict[str, Resource] = OrderedDict()
        self._max = resources_max

    @asynccontextmanager
    async def use(self, name: str) -> AsyncIterator[Resource]:
        """A resource that is not forgotten meanwhile: a second block in memory would let tokens go down."""
        resource = self._found.setdefault(name, Resource(name))
        self._found.move_to_end(name)
        resource.used += 1
        try:
            yield resource
        finally:
            resource.used -= 1
            self._forget()

    def _forget(self) -> None:
        while len(self._found) > self._max:
            oldest = next((name for name, resource in self._found.items() if not resource.used), None)
            if oldest is None:
                return
            del self._found[oldest]


class Tokens:
    """Draws tokens from blocks of the keyspace."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session

    async def draw(self, resource: Resource, above: int = 0) -> Token:
        """The next token of a resource, higher than `above`."""
        async with resource.purchase:
            bought = not resource.has(above)
            if bought:
                await self._buy(resource, above)
            value = max(resource.next, above + 1)
            resource.next = value + 1
            return Token(value, resource.end, bought)

    async def is_newest(self, resource: Resource, token: Token) -> bool:
        """Whether no client has bought a block after that of this token."""
        row = (await self._session.run("seq_row", {"resource": resource.name})).first()
        return row is not None and row["last_seq"] == token.block_end

    async def _buy(self, resource: Resource, above: int) -> None:
        """Buy the block after the newest one, or the first."""
        size, name = self._session.options.block_size, resource.name
        floor, there, seen = max(above, resource.end), False, None
        for failures in range(1, PURCHASES_MAX + 1):
            begin = max(floor, seen or 0)
            statement = "seq_advance" if there else "seq_insert"
            values = {"resource": name, "last_seq": begin + size, "seen_last_seq": seen}
            taken = {value: values[value] for value in self._session.takes(statement)}
            try:
                answer = await self._session.run(statement, taken)
            except Unknown:
                there, seen = _last(await decisive(self._session, "seq_row", {"resource": name}))
                continue
            if answer.applied:
                resource.next, resource.end = begin + 1, begin + size
                return
            if there:
                await asyncio.sleep(CONTENTION.pause_s(failures, random.random()))
            there, seen = _last(answer)
        raise Busy(f"the tokens of {name!r} are fought for: {PURCHASES_MAX} tries to buy a block were in vain")


def _last(answer: CqlRows) -> tuple[bool, int | None]:
    """Whether there is a row, in a refusal or as it was read, and the end of the newest block; a foreign row may have
    none. A refused condition on a row that is gone names no column."""
    row = answer.first()
    return (False, None) if row is None or "last_seq" not in row else (True, row["last_seq"])
