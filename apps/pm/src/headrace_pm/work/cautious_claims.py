"""Claims on files that stop while the process has no room for more, and that say for what it is not to blame."""

from __future__ import annotations

from headrace.sources import HeldItem, ItemSettlement, Polled
from headrace.tables import OpenTables
from headrace_pm.spool.spool import Spool
from headrace_pm.tables.file_claims import FileClaims
from headrace_pm.work.memory import MemoryBreaker


class CautiousClaims(FileClaims):
    """The source of the worker of one process."""

    def __init__(self, tables: OpenTables, spool_name: str, spool: Spool, memory: MemoryBreaker) -> None:
        super().__init__(tables, spool_name, lambda: spool.accepting and memory.accepting())
        self._memory = memory
        self._alone: dict[str, int] = {}
        """Files that were begun alone, with their fences, until it is known that they were let go."""

    async def poll(self, count_max: int) -> Polled:
        """While there is too much memory in use, one at a time."""
        await self._testify()
        self._memory.accepting()
        return await super().poll(1 if self._memory.is_open else count_max)

    async def begin_alone(self, held: HeldItem) -> bool:
        self._alone[held.key] = held.fence
        return await super().begin_alone(held)

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        return self._let_go(held, await super().settle(held, settlement))

    async def give_back(self, held: HeldItem) -> bool:
        return self._let_go(held, await super().give_back(held))

    def _let_go(self, held: HeldItem, is_accepted: bool) -> bool:
        if is_accepted:
            self._alone.pop(held.key, None)
        return is_accepted

    async def _testify(self) -> None:
        """Nothing is polled while a file runs alone, so it has ended. If its hold has passed it was not because this
        process died: the database was away. Else three outages would bury a file that meets them."""
        for key, fence in list(self._alone.items()):
            await self.pardon(key, fence)
            self._alone.pop(key, None)
