"""The ledger of projects over `engine.ledger`: the same words with nothing installed.

A project has two accounts of the store. One holds what ended: every item is an entry of the good kind, and an item that
ended well is a second entry, of the bad kind. So both counts of one settlement are one transaction, and errors are the
items without a success, however often they were tried. Its total is what was found, one ahead. The other account holds
the state: its total is the sealed one, its entries are the steps that were taken. An entry is new for one caller only,
so one caller crosses the line.

Totals only rise, and each rise has the total from which it starts as its source: of two that start from the same one,
the store takes one. A forgotten project's accounts are closed; the next one of that name has others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

import headrace
from headrace.errors import Conflict
from headrace.ports import Account, AccountTally, Entry
from headrace_smap.ledger.project_ledger import digest
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    SEALED,
    PostEnd,
    Standing,
)

CALL_ITEMS_MAX = 4_000
FORGOTTEN_TOPIC = "smap.forgotten"
WELL = "well."
SEAL, START, LINE = Entry("sealed"), Entry("processing", ok=False), Entry("line")
NAME_CHARS_MAX = 400


@dataclass(frozen=True, slots=True)
class Names:
    """The two accounts of one project; `life` counts the projects of that name that were forgotten."""

    items: str
    state: str

    @classmethod
    def of(cls, project: str, life: int) -> Names:
        name = project if len(project) <= NAME_CHARS_MAX else f"#{digest(project).hex()}"
        return cls(f"smap.items.{life}/{name}", f"smap.state.{life}/{name}")


class StoreLedger:
    """`ProjectLedger` in the engine's store."""

    def __init__(self, engine: headrace.Engine) -> None:
        self._ledger = engine.ledger

    async def open(self, project: str) -> bool:
        names, _ = await self._find(project)
        return await self._open(names)

    async def expect(self, project: str, found: int) -> Standing | None:
        names, items = await self._find(project)
        if items is None:
            return None
        before = await self._look(names)
        if before.status not in SEALED:
            await self._raise_total(names.items, found + 1)
        elif before.status != DONE:
            await self._raise_total(names.state, found)
        return _of_this_call(await self._look(names))

    async def seal(self, project: str, total: int | None) -> Standing | None:
        names, items = await self._find(project)
        if items is None:
            return None
        before = await self._look(names)
        if before.status not in SEALED:
            await self._raise_total(names.state, max(before.total if total is None else total, before.counted))
            await self._ledger.settle(names.state, [SEAL])
        elif before.status != DONE and total is not None:
            await self._raise_total(names.state, total)
        return _of_this_call(await self._cross(names))

    async def settle(self, project: str, ends: Sequence[PostEnd]) -> Standing | None:
        names, items = await self._find(project)
        if items is None:
            return None
        new = await self._count(names, ends)
        if ends and (await self._look(names)).status == PROCESSING_WAIT:
            await self._ledger.settle(names.state, [START])
        return _of_this_call(await self._cross(names), new)

    async def tally(self, project: str) -> Standing | None:
        names, items = await self._find(project)
        return None if items is None else _of_this_call(await self._look(names))

    async def tallies(self, projects: Sequence[str]) -> list[Standing | None]:
        return [await self.tally(project) for project in projects]

    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        names, _ = await self._find(project)
        await self._open(names)
        if known.status in SEALED:
            await self._raise_total(names.state, known.total)
            steps = {PROCESSING_WAIT: [SEAL], PROCESSING: [SEAL, START], DONE: [SEAL, LINE]}
            await self._ledger.settle(names.state, steps[known.status])
        elif known.status == CRAWLING:
            await self._raise_total(names.items, known.total)
        new = await self._count(names, ends)
        return _of_this_call(await self._look(names), new)

    async def projects(self) -> list[str]:
        return []

    async def era(self) -> str:
        return ""

    async def forget(self, project: str) -> None:
        names, items = await self._find(project)
        for name in (names.state, names.items):
            # A settlement in between makes the seal too short: then it is tried with what has ended by now.
            while items is not None and (account := await self._ledger.tally(name)) and not account.sealed:
                await self._ledger.seal(name, account.ended)

    async def _find(self, project: str) -> tuple[Names, AccountTally | None]:
        for life in count(1):
            names = Names.of(project, life)
            items = await self._ledger.tally(names.items)
            if items is None or not items.sealed:
                return names, items
        raise AssertionError("there is always a next life")

    async def _open(self, names: Names) -> bool:
        # The state first: where there are items there is a state.
        await self._ledger.open(Account(names.state, FORGOTTEN_TOPIC))
        return await self._ledger.open(Account(names.items, FORGOTTEN_TOPIC))

    async def _count(self, names: Names, ends: Sequence[PostEnd]) -> int:
        """Count what ended; the number of items that were new."""
        new = 0
        for first in range(0, len(ends), CALL_ITEMS_MAX):
            entries: list[Entry] = []
            for end in ends[first : first + CALL_ITEMS_MAX]:
                item = digest(end.item).hex()
                entries.append(Entry(item))
                if end.ok:
                    entries.append(Entry(WELL + item, ok=False))
            posted = await self._ledger.settle(names.items, entries)
            new += sum(not item.startswith(WELL) for item in posted.new)
        return new

    async def _cross(self, names: Names) -> Standing:
        """Look at the line. The items are read before the state: what has ended is not less when the total is read."""
        items = await self._ledger.tally(names.items)
        state = await self._ledger.tally(names.state)
        reached = items is not None and state is not None and state.done == 1 and items.done >= state.total
        crossed = reached and bool((await self._ledger.settle(names.state, [LINE])).new)
        return replace(await self._look(names), crossed=crossed)

    async def _look(self, names: Names) -> Standing:
        """The state is read before the items: whoever sees DONE sees all that made it so. `surplus` is of all calls."""
        state = await self._ledger.tally(names.state) or AccountTally(names.state)
        items = await self._ledger.tally(names.items) or AccountTally(names.items)
        sealed = state.done > 0
        total = state.total if sealed else items.total
        done = min(items.done, total) if sealed else items.done
        failed = min(items.done - items.errors, done)
        status = _status(state, items)
        return Standing(
            status=status,
            total=total,
            done=done,
            errors=failed,
            counted=done,
            failed=failed,
            surplus=items.done - done,
            ours=status == DONE,
            crawl=CRAWL_SEALED if sealed else CRAWL_OPEN if items.total else "",
        )

    async def _raise_total(self, name: str, wanted: int) -> None:
        while (account := await self._ledger.tally(name)) is not None and account.total < wanted:
            try:
                posted = await self._ledger.expect(name, wanted - account.total, f"from {account.total}")
            except Conflict:
                continue
            if not posted.accepted:
                # Forgotten in between.
                return


def _status(state: AccountTally, items: AccountTally) -> str:
    if state.done == 0:
        return CRAWLING if items.total else INITIALIZING
    if state.done > 1 or items.done >= state.total:
        # Whoever sees the last item sees the end, though the step over the line is a write of its own.
        return DONE
    return PROCESSING if state.errors else PROCESSING_WAIT


def _of_this_call(after: Standing, new: int = 0) -> Standing:
    """Items beyond a sealed total are remembered, but not counted unless it rises."""
    surplus = min(new, after.surplus)
    return replace(after, new=new - surplus, surplus=surplus)
