"""Run inside a mount namespace of its own: fill a small disk under a store, free some of it, and go on."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from headrace.adapters.sqlite.store import SqliteStore
from headrace.core.claims import Settlement, Want
from headrace.core.errors import StoreFull
from headrace.core.graph import Graph, StageSpec
from headrace.core.jobs import JobFilter, Submission
from headrace.core.parcels import Encoded, pack
from headrace.core.recount import recount

GRAPH = Graph.build([StageSpec("read")])


async def main(folder: Path) -> None:
    ballast = folder / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    store = await SqliteStore.open(str(folder / "store.db"))
    acknowledged: list[str] = []
    refused = ""
    while not refused:
        job = f"job-{len(acknowledged):03d}"
        parcels = tuple(pack("read", [Encoded(b"x" * 100_000)] * 2))
        try:
            acknowledged.append((await store.submit(Submission(job, "fill", GRAPH, parcels))).job)
        except StoreFull as error:
            refused = str(error)
    ballast.unlink()
    known = {view.id for view in await store.jobs(JobFilter(limit=1_000))}
    while claims := (await store.claim("worker", [Want("fill", "read", 100, 100)], 30)).claims:
        await store.settle([Settlement(claim.fence, 1, (1 << claim.count) - 1) for claim in claims])
    findings = [finding for job in acknowledged for finding in recount(await store.audit(job))]
    states = {(await store.job(job)).state for job in acknowledged}
    await store.close()
    answer = {
        "refused": refused,
        "lost": sorted(set(acknowledged) - known),
        "ghosts": sorted(known - set(acknowledged)),
    }
    print(json.dumps({**answer, "count": len(acknowledged), "states": sorted(states), "findings": len(findings)}))


asyncio.run(main(Path(sys.argv[1])))
