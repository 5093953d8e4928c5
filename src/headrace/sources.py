"""Work that lies in rows of a foreign contract: a `Source` says how the rows are polled, held and settled, and a
`SourceWorker` runs a handler over it with the outcomes, retries and observation of the engine.

    class Jobs:                                     # passes headrace.testing.contracts.SourceContract
        async def poll(self, count_max): ...

    async def handle(payload, context: SourceContext):
        await send(payload, fence=context.fence)    # None: done; raise or return Retry, Dead, Snooze

    await SourceWorker(Jobs(), handle, SourceOptions(name="jobs")).run()

A handler that has to call blocking code calls it in `RealThreads`: asyncio's own pool has a few threads, and those who
wait for one have their time running.
"""

from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, is_worker_lost
from headrace.ports.source import Source, SourceFeatures
from headrace.runtime.seams import RealThreads
from headrace.runtime.sources.context import SourceContext
from headrace.runtime.sources.options import SourceOptions
from headrace.runtime.sources.worker import SourceWorker

__all__ = [
    "HeldItem",
    "ItemCandidate",
    "ItemSettlement",
    "ItemState",
    "Polled",
    "RealThreads",
    "Source",
    "SourceContext",
    "SourceFeatures",
    "SourceOptions",
    "SourceWorker",
    "is_worker_lost",
]
