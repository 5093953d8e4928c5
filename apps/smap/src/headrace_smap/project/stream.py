"""The newest projects as one stream: a browser opens few connections to one host, so a page needs one for all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator

import msgspec

from headrace.http import StreamEvent
from headrace_smap.project.reader import Reader

LOOK_S = 0.5
NEWEST = 50


async def watch_newest(reader: Reader, last: str, look_s: float = LOOK_S) -> AsyncGenerator[StreamEvent, None]:
    """Every change among the newest projects, as the whole short list; the same list is not told twice in a row."""
    while True:
        shown = await reader.list(NEWEST)
        text = msgspec.json.encode(shown["items"]).decode()
        name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        if name != last:
            last = name
            yield StreamEvent(text, name, "projects")
        await asyncio.sleep(look_s)
