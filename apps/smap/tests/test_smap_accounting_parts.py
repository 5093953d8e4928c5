"""The ledger in memory that the account is tried on keeps the contract of the real ones."""

from __future__ import annotations

import pytest
from smap_accounts import MemoryLedger
from smap_ledger_contract import ProjectLedgerContract


class TestMemoryLedger(ProjectLedgerContract):
    @pytest.fixture
    async def ledger(self) -> MemoryLedger:
        return MemoryLedger()
