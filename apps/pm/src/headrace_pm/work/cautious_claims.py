"""Claims on files that stop while the process has no room for more: in its spool, or in memory."""

from __future__ import annotations

from headrace.sources import Polled
from headrace.tables import OpenTables
from headrace_pm.spool.spool import Spool
from headrace_pm.tables.file_claims import FileClaims
from headrace_pm.work.memory import MemoryBreaker


class CautiousClaims(FileClaims):
    """The source of the worker."""

    def __init__(self, tables: OpenTables, spool_name: str, spool: Spool, memory: MemoryBreaker) -> None:
        super().__init__(tables, spool_name, lambda: spool.accepting and memory.accepting())
        self._memory = memory

    async def poll(self, count_max: int) -> Polled:
        """While there is too much memory in use, one at a time."""
        self._memory.accepting()
        return await super().poll(1 if self._memory.is_open else count_max)
