"""A ledger that loses a moment, and what a reconciler must make of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smap_accounts import MemoryLedger
from smap_reconciling_contract import Account, MemoryHash

from headrace_smap.count.reconciliation.reconciler import Reconciler
from headrace_smap.values import CRAWLING, DONE, Standing


def in_memory(reconciler: type[Reconciler] = Reconciler, **settings: Any) -> Account:
    ledger = MemoryLedger()
    return Account(ledger, MemoryHash(ledger), reconciler, **settings)


async def lives_through_a_lost_moment(account: Account, total: int = 4) -> None:
    ledger = account.parts.ledger
    await account.foreign.set_project_total(2)
    await account.settle("a", "b")
    await account.look_after()
    picture = ledger.picture()
    await account.foreign.set_project_total(total)
    await account.foreign.crawled_everything()
    await account.foreign.mark_item_done()
    await account.look_after()
    ledger.lose(picture)
    await account.look_after()
    assert (await account.shown())[1:] == (total, 3, 0)
    if total > 3:
        await account.settle("c")
    await account.look_after(5)
    assert await account.shown() == (DONE, total, total, 0)


async def lives_through_a_lost_moment_while_looking(reconciler: type[Reconciler]) -> None:
    ledger = LosingWhileLooking()
    account = Account(ledger, MemoryHash(ledger), reconciler)
    await account.foreign.init_project_state()
    await account.foreign.set_project_total(2)
    await account.settle("a")
    await account.look_after()
    ledger.back_to = ledger.picture()
    await account.foreign.set_project_total(9)
    await account.settle("a")
    await account.look_after(2)
    assert ledger.life == 2
    assert await account.shown() == (CRAWLING, 9, 1, 0)


class LosingWhileLooking(MemoryLedger):
    """Is restarted between two questions of one look."""

    back_to: Any = None

    async def tallies(self, projects: Sequence[str]) -> list[Standing | None]:
        if self.back_to is not None:
            self.lose(self.back_to)
            self.back_to = None
        return await super().tallies(projects)
