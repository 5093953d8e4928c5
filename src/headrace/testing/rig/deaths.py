"""Tells of servers that end while somebody works on them: without it `up --rig` goes on, and waits for one for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headrace.testing.rig import places
from headrace.testing.rig.server import Server

LOOK_S = 0.5


@asynccontextmanager
async def deaths_told(servers: Sequence[Server], say: Callable[[str], None]) -> AsyncIterator[None]:
    """While the block runs, each that ends by itself is told once, with a log that outlives it."""
    watch = asyncio.ensure_future(_watch(list(servers), say))
    try:
        yield
    finally:
        watch.cancel()


async def _watch(servers: list[Server], say: Callable[[str], None]) -> None:
    while servers:
        for server in [each for each in servers if not each.running]:
            servers.remove(server)
            kept = places.keep_log(server.home)
            say(f"{server.name} of the rig has ended; what needs it waits until all is started again. Its log: {kept}")
        await asyncio.sleep(LOOK_S)
