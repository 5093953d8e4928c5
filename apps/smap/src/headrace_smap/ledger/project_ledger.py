"""The ledger of projects: one count that all services see, with one finish line.

It is a view. The durable truth is the database, written first; what a ledger lost is added again from there. So every
call may be repeated as it is and commutes with the others: counts follow from the set of items, states only rise, and a
total only ever gets smaller in the one step that seals it. An absent project is answered by None and never made by
accident; one where somebody else counts without a status is absent too. Whatever passes by itself is raised as
`Unreachable`, `StoreFull` or `TryAgain`: the same call again is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from headrace_smap.values import PostEnd, Standing

DIGEST_BYTES = 16


class ProjectLedger(Protocol):
    async def open(self, project: str) -> bool:
        """A new project: INITIALIZING, nothing expected. False: it is there already and stays as it is."""

    async def expect(self, project: str, found: int) -> Standing | None:
        """So many posts are known to our collector by now: CRAWLING, and the total is one ahead of them, because the
        crawl itself is an open item. From here to the seal nothing crosses the line, whatever status others write. A
        repeat changes nothing, a smaller number neither. After the seal the total can only rise to exactly `found`,
        after DONE not at all."""

    async def seal(self, project: str, total: int | None) -> Standing | None:
        """Nobody will find more: PROCESSING_WAIT with this total (None: the one that is shown; never less than is
        counted), in one step with the check of the finish line. Sealed already: until DONE the total may still rise,
        not fall."""

    async def settle(self, project: str, ends: Sequence[PostEnd]) -> Standing | None:
        """Posts ended, each counted once; one that failed and now went well is an error no more. PROCESSING_WAIT
        becomes PROCESSING, or DONE at the line. No ends at all only check the line. A sealed project counts no more
        than its total."""

    async def tally(self, project: str) -> Standing | None:
        """The account in one snapshot. Looking at an unfinished project keeps it from expiring."""

    async def tallies(self, projects: Sequence[str]) -> list[Standing | None]:
        """The same of many, each a snapshot of its own, in the order in which they were asked for."""

    async def restore(self, project: str, known: Standing, ends: Sequence[PostEnd]) -> Standing:
        """Make the account at least what the truth knows: the project if it is absent, status and total if they are
        behind, items that are not counted. Only ever adds, but for one thing: the total of a project that is DONE is
        put back to the one it had.

        `known.total` of a project that is not sealed is what is to be shown (one ahead). `known.done - known.counted`
        and `known.errors - known.failed` are what foreign workers are known to have counted, and what they counted
        since the account was lost is added to it. The line is not looked at: settle afterwards, if need be nothing.
        """

    async def projects(self) -> list[str]:
        """Accounts that a foreign service may have made. A ledger that nobody else can write to names none: whoever
        keeps the truth knows its own."""

    async def era(self) -> str:
        """Which life of the server this is: another answer means that it was restarted and may have lost a moment."""

    async def forget(self, project: str) -> None:
        """Remove the account and everything beside it."""


def digest(item: str) -> bytes:
    """What a ledger remembers of an item, whatever its length."""
    return blake2b(item.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
