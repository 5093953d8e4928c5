"""The store: queue and account in one place.

Two round trips move any number of items: `claim` and `settle`. Every call may be repeated as it is
after a lost answer; a repeat changes nothing and gets the first answer. A refusal is a value. A
broken connection is `Unreachable` if nothing was sent and `Unknown` if something may have been done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headrace.core.claims import Grant, Renewed, Settled, Settlement, Swept, Want
from headrace.core.jobs import Submission, Submitted
from headrace.core.parcels import Parcel


@dataclass(frozen=True, slots=True)
class Features:
    """What an adapter cannot do is said here, and the contract suite deselects by it.

    `open_transactions`: it is an `OpenTransactions` too.
    """

    durable: bool = True
    many_processes: bool = True
    open_transactions: bool = False


class Store(Protocol):
    @property
    def features(self) -> Features: ...

    async def submit(self, submission: Submission) -> Submitted:
        """Open a job with its items, tallies and graph, in one transaction.

        Sealing starts here: stages that nothing feeds and that got no items close at once, and the
        close cascades; a job without items may end in this very call. Repeated with the same job id
        or the same (tenant, flow, key) and digest: the first job. Another digest: `Conflict`.
        """

    async def send(self, owner: int | str, parcels: Sequence[Parcel]) -> bool:
        """Stage parcels ahead of the settlement (owner: its fence) or submit (owner: the job id) that flips them.

        Staged items are in no count and cannot be claimed. A parcel number seen before under this
        owner is not written again. False: the claim is lost, nothing was written. What is never
        flipped is dropped with the claim, or a day after an abandoned upload.
        """

    async def claim(self, worker: str, wants: Sequence[Want], hold_s: float) -> Grant:
        """Take waiting items and hold them for `hold_s` by the store's clock.

        Each claim carries a fence higher than any granted before. An item is in at most one live
        claim. Items that are not due, paused or held are left alone. Per stage the highest priority
        goes first, with a share for the lowest; within a priority claims rotate over tenants, then
        over their jobs. With several live workers one call takes from a job's stage at most its
        waiting items divided by twice their number (but at least one), so the last ones spread
        over everybody.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Apply outcomes: one answer per settlement, in order; each is applied whole or refused whole.

        Accepted only while the claim is live by the store's clock and `step` follows the last one.
        Counts, dead letters, items waiting again, sends, closings, finish lines and their events are
        one transaction.
        """

    def renew(self, worker: str, fences: Sequence[int], hold_s: float) -> Renewed:
        """Hold on for another `hold_s`, and say that this worker is alive. Blocking: the heart calls it
        from a thread of its own, so that a blocked event loop does not starve it. An expired claim is
        not revived. A hold of 0 is a goodbye: nothing is renewed, and nobody counts on this worker."""

    async def sweep(self) -> Swept:
        """End expired claims. Any worker may, at any time; no lease is needed.

        Unsettled items come back as suspects. If the claim was `alone` and its holder had begun (a
        first step, which may be empty), its first unsettled item was the only one started: that one
        is charged a crash, and dies `worker_lost` at CRASHES_MAX.
        Staged parcels are dropped. In a cancelled job unsettled items end cancelled instead.
        """

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` (from any thread, soon and seldom) when work may have become available; the answer
        unsubscribes. A lost ring is made up for by polling."""

    async def close(self) -> None:
        """Give everything back. Idempotent."""
