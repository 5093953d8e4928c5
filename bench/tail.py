"""Do the last items of a job spread over all workers?

1,000 items of 20 ms over 4 worker processes with one lane each: the ideal time is 5 s, and whoever sits on a slice
that others could have helped with makes it longer.
"""

from __future__ import annotations

import asyncio
import time

from flows import Tick, tail
from rig import fresh_store, options, tell, workers

import headrace

ITEMS = 1_000
ITEM_S = 0.02
PROCESSES = 4
WAIT_S = 120.0


async def measure(url: str) -> dict[str, object]:
    async with headrace.connect(url) as engine, workers(url, "tail", PROCESSES):
        started = time.perf_counter()
        job = await engine.submit_many(tail, map(Tick, range(ITEMS)))
        view = await engine.wait(job, WAIT_S)
        took_s = time.perf_counter() - started
    ideal_s = ITEMS * ITEM_S / PROCESSES
    return {
        "n": view.stages["rest"].done,
        "processes": PROCESSES,
        "seconds": round(took_s, 3),
        "ideal_s": ideal_s,
        "ratio": round(took_s / ideal_s, 3),
    }


def main() -> None:
    arguments = options(__doc__ or "").parse_args()
    with fresh_store(arguments.store) as url:
        found = asyncio.run(measure(url))
    tell({"who": "headrace", "store": arguments.store, **found}, arguments.json)


if __name__ == "__main__":
    main()
