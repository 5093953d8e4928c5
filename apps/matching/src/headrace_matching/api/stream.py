"""A job as Server-Sent Events."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator

import msgspec

from headrace.http import StreamEvent
from headrace_matching.phases.jobs import Jobs
from headrace_matching.phases.transitions import RUNNING

LOOK_S = 0.5


async def watch_job(jobs: Jobs, job: str, last: str, look_s: float = LOOK_S) -> AsyncGenerator[StreamEvent, None]:
    """Every change of a job as the whole view; the same one is not sent twice in a row. It ends with the job."""
    while True:
        view = await jobs.view(job)
        text = msgspec.json.encode(view).decode()
        name = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
        if name != last:
            last = name
            yield StreamEvent(text, name, "job")
        if view["state"] != RUNNING:
            return
        await asyncio.sleep(look_s)
