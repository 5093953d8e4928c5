"""The history of a source, checked as it happens, with an account of its own from the calls alone.

L1: one effective end per item. L2: nothing is held after it. N1: fences of an item rise. F3: nothing is held, renewed
or settled beside or after another hold. F4: no handler takes a step without its hold. F5: no worker takes its hold to
last longer than the source does. H1: done means that the handler
came to its end. H4: attempts are spent by failures alone: not by crashes, lost holds, drains or outages. C1: an item of
a lost hold is started only when its source knows it, and alone in its process. C2: it dies of that exactly when it was
alone in as many lost holds as it may be.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core.claims import CRASHES_MAX
from headrace.core.sources import HeldItem, ItemSettlement, ItemState, is_worker_lost
from headrace.testing.memory_source import SourceRow
from headrace.testing.simulation.run_trace import ROUNDING_S, RunTrace
from headrace.testing.simulation.sink import SimulatedSink

Run = tuple[str, int]
"""The key of an item and the fence of one of its holds."""


@dataclass(slots=True)
class ItemAccount:
    """One item as the history knows it. `applied` is how its last hold ended, None in place of what was given back.
    `alone`: it was begun alone under its last hold."""

    fence: int = 0
    holder: str = ""
    until: float = 0.0
    attempts: int = 0
    suspect: bool = False
    alone: bool = False
    crashes: int = 0
    end: ItemState | None = None
    applied: tuple[int, ItemSettlement | None] | None = None

    def live(self, fence: int, at: float) -> bool:
        return bool(self.holder) and self.fence == fence and at <= self.until + ROUNDING_S


class SourceHistory(RunTrace):
    """Everything that happened to the items of one source."""

    def __init__(self) -> None:
        super().__init__()
        self.accounts: dict[str, ItemAccount] = {}
        self._ran: set[Run] = set()
        self._failed: set[Run] = set()
        self._outages: set[Run] = set()
        self._running: defaultdict[str, set[Run]] = defaultdict(set)

    def added(self, key: str) -> None:
        self.accounts[key] = ItemAccount()

    # What the source did

    def granted(self, at: float, holder: str, held: HeldItem | None, hold_s: float) -> None:
        if held is None:
            return
        account = self.accounts[held.key]
        if account.end is not None:
            self.found("L2", f"held under {held.fence} after it had ended {account.end}", held.key)
        if account.live(account.fence, at - 2 * ROUNDING_S):
            if (holder, held.fence) != (account.holder, account.fence):
                self.found("F3", f"held under {held.fence} while {account.fence} held it", held.key)
            account.until = max(account.until, at + hold_s)
            return
        if held.fence <= account.fence:
            self.found("N1", f"fence {held.fence} was granted after {account.fence}", held.key)
        if held.attempts != account.attempts:
            self.found("H4", f"has {held.attempts} attempts, and {account.attempts} were spent", held.key)
        if account.holder:
            account.suspect, account.crashes = True, account.crashes + account.alone
        account.alone = False
        if (held.suspect, held.crashes) != (account.suspect, account.crashes):
            self.found("C2", f"is held with {held.crashes} crashes, {held.suspect}; not as {account}", held.key)
        account.fence, account.holder, account.until = held.fence, holder, at + hold_s

    def began_alone(self, at: float, held: HeldItem, accepted: bool) -> None:
        account = self.accounts[held.key]
        if accepted:
            if not account.live(held.fence, at):
                self.found("F3", f"{held.fence} was begun alone after its hold had ended", held.key)
            account.alone = True

    def renewed(self, at: float, held: HeldItem, kept: bool, hold_s: float) -> None:
        account = self.accounts[held.key]
        if kept:
            if not account.live(held.fence, at):
                self.found("F3", f"{held.fence} was renewed after its hold had ended", held.key)
            account.until = at + hold_s

    def ended(self, at: float, held: HeldItem, settlement: ItemSettlement | None, accepted: bool) -> None:
        """A settlement, or None for what was given back, was answered."""
        account = self.accounts[held.key]
        if not accepted:
            if account.live(held.fence, at + 2 * ROUNDING_S):
                self.found("V2", f"{held.fence} was refused although it holds", held.key)
            return
        if account.fence == held.fence and account.applied == (held.fence, settlement):
            return
        if not account.live(held.fence, at):
            self.found("F3", f"{held.fence} was accepted after its hold had ended", held.key)
        if account.end is not None:
            self.found("L1", f"ended again after it had ended {account.end}", held.key)
        account.applied, account.holder, account.alone = (held.fence, settlement), "", False
        if settlement is not None:
            self._settled(account, held, settlement)

    def _settled(self, account: ItemAccount, held: HeldItem, settlement: ItemSettlement) -> None:
        run = (held.key, held.fence)
        done = settlement.state is ItemState.DONE
        if done and run not in self._ran:
            self.found("H1", "is done, and its handler has not come to its end", held.key)
        buried = is_worker_lost(settlement)
        if buried and account.crashes < CRASHES_MAX:
            self.found("C2", f"died as worker_lost after {account.crashes} crashes", held.key)
        account.suspect = account.suspect and buried
        if settlement.failure is not None and not buried and (run not in self._failed or run in self._outages):
            self.found("H4", f"{settlement.failure.reason} spent attempt {settlement.attempts}", held.key)
        spent = done or (settlement.failure is not None and not buried)
        if settlement.attempts != account.attempts + spent:
            self.found("H4", f"{settlement.attempts} attempts after {account.attempts}", held.key)
        account.attempts = settlement.attempts
        account.end = None if settlement.state is ItemState.AGAIN else settlement.state

    # What handlers did

    def began(self, at: float, process: str, key: str, fence: int) -> None:
        """A handler was started."""
        account = self.accounts[key]
        if not account.live(fence, at):
            return
        if account.crashes >= CRASHES_MAX:
            self.found("C2", f"was started after {account.crashes} crashes", key)
        if account.suspect and not account.alone:
            self.found("C1", "is a suspect, and was started before its source knew it", key)
        beside = [run for run in self._running[process] if self.accounts[run[0]].live(run[1], at)]
        if beside and (account.suspect or any(self.accounts[other].suspect for other, _ in beside)):
            self.found("C1", f"was started beside {beside} in {process}, and there is a suspect among them", key)
        self._running[process].add((key, fence))

    def left(self, process: str, key: str, fence: int) -> None:
        """A handler has come to an end, whichever."""
        self._running[process].discard((key, fence))

    def stepped(self, at: float, key: str, fence: int) -> None:
        """A handler was resumed."""
        if not self.accounts[key].live(fence, at):
            self.found("F4", f"its handler under {fence} went on after its hold had ended", key)

    def believed(self, at: float, key: str, fence: int, left_s: float) -> None:
        """A worker takes its hold to be good for so long."""
        account = self.accounts[key]
        if account.live(fence, at) and at + left_s > account.until + ROUNDING_S:
            late_s = at + left_s - account.until
            self.found("F5", f"its worker takes {fence} to be good for {late_s:.3f} s too long", key)

    def ran(self, key: str, fence: int) -> None:
        self._ran.add((key, fence))

    def failed(self, key: str, fence: int) -> None:
        """A handler is about to fail by its own fault, or to take longer than it may."""
        self._failed.add((key, fence))

    def met_outage(self, key: str, fence: int) -> None:
        self._outages.add((key, fence))

    # At the end

    @property
    def open(self) -> list[str]:
        return [key for key, account in self.accounts.items() if account.end is None]

    def compare(self, rows: Mapping[str, SourceRow], sink: SimulatedSink) -> None:
        """The rows say what the calls said, and the sink has what is done."""
        for key, account in self.accounts.items():
            row = rows[key]
            if (row.state, row.attempts, row.crashes) != (account.end, account.attempts, account.crashes):
                self.found("L1", f"its row says {row}; {account} was settled", key)
            if account.end is ItemState.DONE and key not in sink.written:
                self.found("X1", "is done and left no effect", key)
        for key, fences in sink.written.items():
            if fences != sorted(fences):
                self.found("F1", f"the sink accepted fences {fences}", key)
