"""Buckets that are neither the installation's nor a queue's: other programs may write their rows into any.

The partitions of `jobs_sharded` are listed by the order of their tokens. Those of `jobs_pending_by_bucket` too, for a
row without a job, but not over partitions with tombstones, which the server would read over to list them: the buckets
of the installation, strays with jobs, and queues that had a job due in the time for which tombstones are kept. So the
look takes a statement for each of these, and none for a tenant that is idle, however many there are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import timedelta
from itertools import pairwise

import structlog

from headrace.errors import HeadraceError
from headrace_scheduler.tables.all_tables import AllTables
from headrace_scheduler.tables.used_buckets import FIRST, LOOK_S, PAGE, REST_SHARE, UsedBuckets
from headrace_scheduler.tenants.tenant_queue import DEFAULT_QUEUE, number_of

TOMBSTONES_KEPT = timedelta(hours=2)
"""Twice `gc_grace_seconds`: they go when a table is compacted, some time after that."""

STRAYS_MAX = 1_000
"""Each is read by every poll while it has rows; the others come when these have none."""
LAST = 2**63 - 1
log = structlog.get_logger("scheduler")


class StrayBuckets:
    """What the last look has found. `polled` is how many buckets the installation has."""

    def __init__(self, tables: AllTables, polled: int) -> None:
        self._tables, self._polled = tables, polled
        self._with_jobs = UsedBuckets(tables.tables, tables.queues, polled)
        self._found: frozenset[int] = frozenset()
        self._look_at = float("-inf")

    async def buckets(self) -> frozenset[int]:
        """Looked for again when it is time. What cannot be read is found later."""
        began = time.monotonic()
        if began >= self._look_at:
            try:
                self._found = await self._look()
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("reconciler.buckets_unread", error=str(error))
            ended = time.monotonic()
            self._look_at = ended + max(LOOK_S, REST_SHARE * (ended - began))
        return self._found

    async def _look(self) -> frozenset[int]:
        await self._tables.queues.others()
        tokens = await self._with_jobs.tokens()
        found = set(tokens)
        edges = [tokens[bucket] for bucket in await self._with_tombstones(tokens)]
        for after, before in pairwise([FIRST, *sorted(edges), LAST]):
            found |= await self._between(after, before)
        strays = sorted(bucket for bucket in found if self._tables.queues.is_stray(bucket, self._polled))
        if len(strays) > STRAYS_MAX:
            log.warning("reconciler.too_many_buckets", found=len(strays), strays_max=STRAYS_MAX)
        return frozenset(strays[:STRAYS_MAX])

    async def _with_tombstones(self, buckets: Iterable[int]) -> list[int]:
        now, queues = self._tables.now(), self._tables.queues
        busy = await queues.marked(now - TOMBSTONES_KEPT, now)
        # Of a queue that is marked, or of none; a newer version's is none that is known.
        return [each for each in buckets if number_of(each) in busy or queues.known(each) is DEFAULT_QUEUE]

    async def _between(self, after: int, before: int) -> set[int]:
        found = set[int]()
        while rows := await self._tables.tables.rows("pending_buckets", after=after, before=before, room=PAGE):
            found.update(bucket for bucket, _ in rows)
            after = rows[-1][1]
            if len(rows) < PAGE:
                break
        return found
