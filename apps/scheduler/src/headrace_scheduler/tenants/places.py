"""How many jobs of each tenant one worker holds, and a source that keeps to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, Polled, Source
from headrace_scheduler.tenants.queue_registry import QueueRegistry
from headrace_scheduler.tenants.tenant_limits import TenantRules


class TenantPlaces:
    """Places that are taken, by tenant. One whose hold was lost is free when the hold would have passed."""

    def __init__(self, rules: TenantRules, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._monotonic = rules, monotonic
        self._taken: dict[str, dict[str, float]] = {}

    def room(self, tenant: str) -> int | None:
        """How many more it may have; None: any number."""
        most = self._rules.limits(tenant).in_progress
        if most is None:
            return None
        taken, now = self._taken.get(tenant, {}), self._monotonic()
        for key in [key for key, until in taken.items() if until <= now]:
            del taken[key]
        return most - len(taken)

    def take(self, tenant: str, key: str, hold_s: float) -> bool:
        room = self.room(tenant)
        if room is None:
            # Nobody asks for them, and so nobody would notice those that were lost.
            return True
        taken = self._taken.setdefault(tenant, {})
        if room <= 0 and key not in taken:
            return False
        taken[key] = self._monotonic() + hold_s
        return True

    def leave(self, tenant: str, key: str) -> None:
        self._taken.get(tenant, {}).pop(key, None)


class BoundedSource:
    """`headrace.sources.Source` on another: a tenant that has all of its places gets no more, and the others do."""

    def __init__(self, source: Source, queues: QueueRegistry, places: TenantPlaces) -> None:
        self._source, self._queues, self._places = source, queues, places
        self.features = source.features
        self._rings: list[Callable[[], None]] = []

    async def poll(self, count_max: int) -> Polled:
        return await self._source.poll(count_max)

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        tenant = self._queues.known(candidate.row.bucket_id).name.tenant
        if not self._places.take(tenant, candidate.key, hold_s):
            return None
        held = None
        try:
            held = await self._source.hold(candidate, holder, hold_s)
        finally:
            if held is None:
                self._leave(tenant, candidate.key)
        return held

    async def begin_alone(self, held: HeldItem) -> bool:
        return await self._source.begin_alone(held)

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        renewed = await self._source.renew(held, hold_s)
        if renewed:
            self._places.take(self._tenant(held), held.key, hold_s)
        return renewed

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        ended = await self._source.settle(held, settlement)
        self._leave(self._tenant(held), held.key)
        return ended

    async def give_back(self, held: HeldItem) -> bool:
        ended = await self._source.give_back(held)
        self._leave(self._tenant(held), held.key)
        return ended

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        return await self._source.report(held, progress)

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """It rings when a tenant that had all of its places has one again: the poll before has left its jobs out."""
        self._rings.append(ring)
        undo = self._source.on_wake(ring)

        def remove() -> None:
            self._rings.remove(ring)
            undo()

        return remove

    def _leave(self, tenant: str, key: str) -> None:
        was_full = self._places.room(tenant) == 0
        self._places.leave(tenant, key)
        if was_full:
            for ring in self._rings:
                ring()

    def _tenant(self, held: HeldItem) -> str:
        return self._queues.known(held.row.job.key.bucket_id).name.tenant
