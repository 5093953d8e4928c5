"""The serial read that decides what became of a write whose answer was lost.

It finishes what the write left half done, or comes before it: what it shows is true. The line over which the answer was
lost may need a moment to be there again, so a read that fails is tried again for a while; what cannot be read within
that time stays unknown.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from headrace.adapters.cassandra.session import CassandraSession, CqlRows
from headrace.core.backoff import Backoff
from headrace.core.errors import HeadraceError, Unknown

CONTENTION = Backoff(0.05, 2.0)
"""50 ms doubling to 2 s, shortened by chance: clients that collide must not collide again."""
DECIDE_S_MAX = 3.0
"""A lost connection is there again by then."""


async def decisive(session: CassandraSession, statement: str, values: Mapping[str, Any]) -> CqlRows:
    """The answer of a serial read; `Unknown` if there is none."""
    clock = asyncio.get_running_loop().time
    deadline, failures = clock() + DECIDE_S_MAX, 0
    while True:
        failures += 1
        await asyncio.sleep(CONTENTION.pause_s(failures, random.random()))
        try:
            return await session.run(statement, values)
        except HeadraceError as error:
            if not error.heals:
                raise
            if clock() >= deadline:
                raise Unknown(f"what became of a write cannot be read: {error}") from error
