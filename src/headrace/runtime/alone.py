"""Suspects: items that were in a claim when its worker was lost. One of them may kill the process.

So a suspect is the only thing its process has to do: everything else is finished or given back first, and each suspect
is settled before the next one starts. Then a crash costs nobody else anything, and it is certain who caused it.

The worker that was lost may only be frozen. So before a suspect runs, the sinks of its stage are told which claims were
lost: after that their holders cannot even make a first write.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.retry import RetryPolicy
from headrace.runtime.crew import Crew
from headrace.runtime.settler import Outage, Settler
from headrace.runtime.slices import Slice

REVOKE_TRIES = 5


async def run_alone(work: Slice, crew: Crew, crews: Sequence[Crew], settler: Settler) -> None:
    """Run the items of one suspect claim, one at a time. Nothing is claimed meanwhile: the caller waits."""
    yard, count = crew.yard, work.claim.count
    # Others settle what has ended as well. Between two suspects nothing is in flight, and yet the claim goes on.
    work.driven = True
    crew.breaker.begin(work.fence)
    revoked = await _revoke(work, crew)
    for other in crews if revoked else ():
        other.release()
    await yard.until(lambda: not revoked or work.lost or yard.draining or set(yard.held) == {work.fence})
    work.on_idle = lambda _: yard.tell()
    if revoked and not (work.lost or yard.draining):
        # An empty step says that the first suspect starts now: a claim lost before it charges nobody.
        settler.soon(work)
        await yard.until(lambda: work.lost or (work.step == 1 and work.sent is None))
    while revoked and work.next < count and not (work.lost or yard.draining or crew.breaker.open_at(yard.now())):
        crew.start_alone(work)
        await yard.until(lambda: work.lost or work.idle)
        if work.next < count and not work.lost:
            settler.soon(work)
            await yard.until(lambda: work.lost or (work.sent is None and not work.has_news()))
    work.driven, work.on_idle = False, settler.soon
    work.release()
    await yard.until(lambda: work.lost or work.ended)


async def _revoke(work: Slice, crew: Crew) -> bool:
    """Tell the sinks of the stage. False: one of them cannot be told now, so the items go back for another time."""
    outage = Outage(crew.yard)
    for revoke in crew.revokers if work.claim.revokes else ():
        for _ in range(REVOKE_TRIES):
            try:
                await revoke(work.claim.revokes)
            except Exception as error:  # a sink may be anybody's
                if crew.yard.outages.found_in(error, RetryPolicy()) is not None:
                    # The stage waits until its sink may be back, and the worker goes on with all others meanwhile.
                    crew.yard.outages.failed(crew.stage, error)
                    return False
                await outage.wait("sink.failing", error)
            else:
                break
        else:
            return False
    return True
