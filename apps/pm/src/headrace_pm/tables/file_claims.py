"""Files as a source of work: rows of `file_processing_state`, each held by owner, epoch and until in `pm_file_claim`.

The claim's row is locked first, so what a hold reads of the file is newer than every settlement. The epoch rises with
every hold and goes to `pm_file_sink` in the same transaction: no earlier holder moves a checkpoint. Time is the
database's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from uuid import uuid4

from headrace.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled, SourceFeatures, is_worker_lost
from headrace.tables import OpenTables, Row
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.tables.steps import run

SINKS = ("mysql", "kafka")
WAITING = ("PENDING", "PARTIAL_DONE")
SETTLED, GIVEN_BACK = "settled", "given back"
# What another process has on its disk is cheaper to wait for than to fetch again; a minute is two leases.
AFFINITY_S = 60.0
# Of each state and system so many are looked at in a poll, and the next poll goes on behind them: a reset among 100,000
# files that wait is seen within minutes, and one among a few hundred at once.
EXAMINED_MAX = 500
ATTEMPTS_MAX = "attempts_max"
"""The rule by which a file dies of its retries: raise its `max_retry`, and it is tried again. Other rules are final."""
_STATES = {
    ItemState.DONE: ("file_done", "revision_whole"),
    ItemState.AGAIN: ("file_again",),
    ItemState.DEAD: ("file_dead",),
}


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file as its row says, read under the hold."""

    file_id: int
    epoch: int
    system_type: str
    ftp_server_key: str
    ftp_path: str
    file_name: str
    file_size: int | None
    mysql_processed: bool
    clickhouse_processed: bool
    revision: int
    version: int
    """Orders everything that was ever read of any file: a higher one wins in every sink."""
    spool: str | None
    """Whose spool has it, as it was when the hold began."""
    archived_as: str | None
    """Where this very content is now, if it was moved: a path as text, see `headrace_pm.ftp.names`."""
    was_read: bool
    """Whether this revision has a content: what the server has by now may be another one."""
    batch_size: int | None
    """How many counters the batches of its checkpoints have; None if nobody has read it so far."""
    stamp: Stamp
    """As it was last listed; `Stamp(0)` if somebody put it into the table and did not say."""


class FileClaims:
    """`headrace.sources.Source` on the table of files. The row's `retry_count` are the attempts, its `max_retry` is the
    limit."""

    features = SourceFeatures(reports=False)

    def __init__(
        self,
        tables: OpenTables,
        spool_name: str = "",
        accepting: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`spool_name` is the spool of this process, as host:path. While it is not `accepting`, only what lies there
        already is found: that makes room. `now` is the clock by which settlements are decided."""
        self._tables, self._spool, self._accepting, self._now = tables, spool_name, accepting, now
        self._places: dict[tuple[str, str], int] = {}

    async def poll(self, count_max: int) -> Polled:
        some = {"spool": self._spool, "count_max": count_max}
        if not self._accepting():
            return _polled([await self._tables.rows("files_spooled", **some)], count_max)
        found = [await self._tables.rows("files_lost", **some)]
        some["affinity_us"] = _microseconds(AFFINITY_S)
        for left_as in WAITING:
            found.append(await self._tables.rows("files_due", **some, left_as=left_as))
        for state, system_type in await self._tables.rows("systems_waiting"):
            found.append(await self._waiting(state, system_type, some))
        return _polled(found, count_max)

    async def _waiting(self, state: str, system_type: str, some: Mapping[str, object]) -> list[Row]:
        """Those of the next slice of a state and system that are due."""
        after = self._places.pop((state, system_type), 0)
        where = {"state": state, "system_type": system_type, "after": after, "examined": EXAMINED_MAX}
        rows = await self._tables.rows("files_waiting", **some, **where)
        due = [(number, is_ours) for number, is_ours, is_due, _ in rows if is_due]
        if len(due) == some["count_max"]:
            # There may be more than were asked for: what is taken of them is gone at the next poll.
            self._places[state, system_type] = after
        elif rows and rows[-1][3] == EXAMINED_MAX:
            self._places[state, system_type] = rows[-1][0]
        elif not rows and after:
            return await self._waiting(state, system_type, some)
        return due

    async def pardon(self, key: str, fence: int) -> None:
        """A file that ran alone under this hold was not lost by a crash: its worker lives."""
        async with self._tables.transaction() as tx:
            for name in ("claim_lock", "claim_pardon", "crash_pardon"):
                run(tx, name, {"id": int(key), "epoch": fence})

    async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
        key = {"id": int(candidate.key), "request": str(uuid4())}
        async with self._tables.transaction() as tx:
            run(tx, "claim_begin", key)
            run(tx, "claim_take", {**key, "owner": holder, "hold_us": _microseconds(hold_s)})
            for name in ("claim_state", "claim_sinks", "claim_revision"):
                run(tx, name, key)
            read = run(tx, "claim_read", key)
        if not read.rows:
            return None
        epoch, attempts, attempts_max, losses, crashes, *row, size, modified = read.rows[0]
        row.append(Stamp(size, modified))
        held = HeldFile(int(candidate.key), epoch, *row)
        return HeldItem(
            candidate.key,
            held,
            epoch,
            attempts or 0,
            attempts_max,
            suspect=losses >= self.features.suspected_after,
            crashes=crashes,
        )

    async def begin_alone(self, held: HeldItem) -> bool:
        return await self._changed("claim_alone", held)

    async def renew(self, held: HeldItem, hold_s: float) -> bool:
        return await self._changed("claim_renew", held, hold_us=_microseconds(hold_s))

    async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
        failure = settlement.failure
        attempts = settlement.attempts
        if settlement.state is ItemState.DONE:
            # The row counts retries, and what is done was none.
            attempts = held.attempts
        waits = settlement.state is ItemState.AGAIN
        # How long from now, and not when: our clock and the database's need not agree.
        delay_s = max(0.0, settlement.due_at - self._now()) if waits else 0.0
        return await self._ended(
            held,
            _STATES[settlement.state],
            SETTLED,
            attempts=attempts,
            error=_in_words(failure.reason, failure.error) if failure else None,
            delay_us=_microseconds(delay_s),
            stays_suspect=is_worker_lost(settlement),
            keeps_spool=waits,
            # One whose worker was lost may be pardoned; until then the count of crashes keeps it an error.
            is_permanent=settlement.state is ItemState.DEAD
            and failure is not None
            and failure.rule != ATTEMPTS_MAX
            and not is_worker_lost(settlement),
        )

    async def give_back(self, held: HeldItem) -> bool:
        values = {"attempts": held.attempts, "error": None, "delay_us": 0, "stays_suspect": True}
        return await self._ended(held, ("file_again",), GIVEN_BACK, **values, keeps_spool=True, is_permanent=False)

    async def spooled(self) -> set[tuple[int, int]]:
        """Id and revision of every file that is still to be read from the spool of this process."""
        return {(file_id, revision) for file_id, revision in await self._tables.rows("spool_wanted", spool=self._spool)}

    async def report(self, held: HeldItem, progress: Mapping[str, object]) -> bool:
        """The table of files has no place for it."""
        return True

    def on_wake(self, ring: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def _ended(self, held: HeldItem, states: Sequence[str], ended: str, **values: object) -> bool:
        # A row that somebody changed under a file that is done shows at the next hold: it is not as we left it.
        left_as = "COMPLETED" if "file_done" in states else None
        key = {"id": int(held.key), "epoch": held.fence, "left_as": left_as, **values, "ended": ended}
        async with self._tables.transaction() as tx:
            for name in ("claim_lock", *states, "claim_end"):
                run(tx, name, key)
            found = run(tx, "claim_ended", key)
        return bool(found.rows)

    async def _changed(self, name: str, held: HeldItem, **values: object) -> bool:
        async with self._tables.transaction() as tx:
            ran = run(tx, name, {"id": int(held.key), "epoch": held.fence, **values})
        return ran.count == 1


def _polled(found: Sequence[Sequence[Row]], count_max: int) -> Polled:
    """Some of each kind, so that none hides another, and each file once; what lies in our own spool is taken first."""
    turns = chain.from_iterable(zip_longest(*found))
    rows = islice({row[0]: row[1] for row in turns if row is not None}.items(), count_max)
    return Polled(tuple(ItemCandidate(str(number), rank=0 if is_ours else 1) for number, is_ours in rows))


def _in_words(reason: str, error: str) -> str:
    """Of an error that nobody foresaw the reason is its class alone: what it says helps people more."""
    said = error.partition("\n")[0]
    return said if said and reason.isidentifier() else reason


def _microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
