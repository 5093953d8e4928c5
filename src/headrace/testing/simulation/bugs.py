"""Planted bugs: every guard of the account has a broken twin here, and the seeds must notice each of them.

Nothing in the product knows of these. A statement is replaced by name; a pure function, the sink or the worker is
exchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw

from headrace.adapters.sqlite import submissions
from headrace.adapters.sqlite.schedules import SqliteSchedules
from headrace.adapters.sqlite.store import SqliteStore
from headrace.adapters.sqlite.store_transactions import Transactions
from headrace.adapters.sqlite.transaction import Transaction
from headrace.core.claims import Claim, Grant, Settled, Settlement
from headrace.core.errors import Unknown
from headrace.core.jobs import Submission
from headrace.core.losses import Charge, charge
from headrace.core.retry import RetryPolicy
from headrace.core.schedules import FireView, Firing
from headrace.runtime.answers import close_unrun
from headrace.runtime.crew import Crew
from headrace.runtime.flow import Flow, Stage
from headrace.runtime.lanes import ItemLane
from headrace.runtime.outages import Outages
from headrace.runtime.slices import Slice
from headrace.runtime.worker import Worker
from headrace.testing.simulation.sink import SimulatedSink
from headrace.testing.simulation.world import SimulatedParts


class AppendsByFence(SimulatedSink):
    """Takes an append again when its fence is newer: a fence stops a zombie, it does not stop a retry."""

    def once(self, key: str, fence: int) -> bool:
        fences = self.appended.setdefault(key, [])
        if fences and fence <= max(fences):
            return False
        fences.append(fence)
        return True


class PutsUnfenced(SimulatedSink):
    """Takes whatever comes last."""

    def put(self, key: str, fence: int) -> bool:
        self.written.setdefault(key, []).append(fence)
        return True


class RecordsFirst(SqliteStore):
    """Applies what handlers recorded before it asks whether the settlement is accepted."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        for settlement in settlements:
            for statement in settlement.statements:
                self._database.write_blocking(lambda connection, s=statement: connection.execute(s.sql, s.values))  # type: ignore[misc]
        return await super().settle([replace(settlement, statements=()) for settlement in settlements])


class AwaitsNothingMore(ItemLane):
    """Takes whatever a handler returned for its answer, also what has not run yet."""

    async def _answer(self, answer: Any) -> Any:
        if not inspect.isawaitable(answer):
            return answer
        close_unrun(answer)
        return None


class ForgetfulCrew(Crew):
    def _item_lane(self) -> ItemLane:
        return AwaitsNothingMore(self)


class ForgetfulWorker(Worker):
    """Counts an item as done whose handler returned a coroutine."""

    def _make_crew(self, stage: Stage, flow: Flow) -> Crew:
        if stage.shape.takes_list:
            return super()._make_crew(stage, flow)
        return ForgetfulCrew(stage, flow.stages, self._yard, self._settler)


class FiresInTwoTransactions(SqliteSchedules):
    """Commits the row of a fire and then submits its job; now and then whoever does it dies in between."""

    async def fire(self, firing: Firing) -> list[FireView]:
        rows = tuple(replace(fire, submission=None) for fire in firing.fires)
        answer = await super().fire(replace(firing, fires=rows))
        for fire in firing.fires:
            if fire.moment_ms // 1_000 % 3 == 0:
                raise Unknown("the line broke between the two")
            if fire.submission is not None:
                submission, moment = fire.submission, fire.moment_ms
                await self._transactions.write(lambda tx, s=submission, m=moment: fire_late(tx, s, m))  # type: ignore[misc]
        return answer


def fire_late(tx: Transaction, submission: Submission, moment_ms: int) -> None:
    """The second of two transactions that should be one."""
    job = submissions.submit(tx, submission).job
    told = "UPDATE headrace_fire SET outcome = 'fired', job = ? WHERE moment_ms = ?"
    tx.connection.execute(told, (job, moment_ms))


class FiresNow(SqliteSchedules):
    """Takes the worker's time for the moment of a fire."""

    async def fire(self, firing: Firing) -> list[FireView]:
        late = tuple(replace(fire, moment_ms=firing.due_ms - 1_234) for fire in firing.fires)
        return await super().fire(replace(firing, fires=late))


class ForgetsMissed(SqliteSchedules):
    """Fires the newest moment of those that are due and passes over what it had promised to make up for."""

    async def fire(self, firing: Firing) -> list[FireView]:
        return await super().fire(replace(firing, fires=firing.fires[-1:]))


def scheduling(broken: type[SqliteSchedules]) -> type[SqliteStore]:
    """A store whose schedules are these."""

    class Scheduling(SqliteStore):
        def __init__(self, *values: Any, **named: Any) -> None:
            super().__init__(*values, **named)
            self.schedules = broken(Transactions(self._write, self._read, self.on_wake))

    return Scheduling


class EndsWhenIdle(Slice):
    """Ends as soon as nothing of it is in flight, whoever still means to start something of it."""

    __slots__ = ()

    @property
    def over(self) -> bool:
        return self.idle


class EndsSuspectsEarly(Worker):
    """Settles the end of a claim between two of its suspects."""

    def _slice(self, claim: Claim, asked_at: float) -> Slice:
        work = super()._slice(claim, asked_at)
        return EndsWhenIdle(claim, work.stage, work.arrived_at, work.good_until)


class RestsAfterSuspects(Worker):
    """Lives on after its first suspects, and claims nothing any more."""

    async def _accept(self, grant: Grant, asked_at: float) -> None:
        await super()._accept(grant, asked_at)
        if any(claim.alone for claim in grant.claims):
            await self._yard.until(lambda: self._yard.draining)


class NoOutages(Outages):
    """Takes an outage for a failure like any other."""

    def found_in(self, error: BaseException, policy: RetryPolicy) -> BaseException | None:
        return None


class ImpatientWorker(Worker):
    """Spends an attempt on whatever went wrong."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        yard = self._yard
        yard.outages = NoOutages(yard.seams.chance, yard.observer, yard.now)


def charge_everybody(alone: bool, unsettled: Sequence[int], crashes: int) -> Charge:
    """A crash charges the whole slice."""
    if crashes + 1 >= 3:
        return Charge(tuple(unsettled), (), ())
    return Charge((), tuple(unsettled), ())


def charge_at_once(alone: bool, unsettled: Sequence[int], crashes: int) -> Charge:
    """The first crash of a culprit is its last."""
    return charge(alone, unsettled, 99)


def changed(name: str, old: str, new: str) -> Callable[[dict[str, str]], Mapping[str, str]]:
    """All statements, one of them with a piece replaced that must be there."""

    def change(statements: dict[str, str]) -> Mapping[str, str]:
        assert old in statements[name], f"statement {name} has changed: plant this bug anew"
        return {**statements, name: statements[name].replace(old, new)}

    return change


def read_feeders(statements: dict[str, str]) -> Mapping[str, str]:
    """The seal follows from a read that a settlement under way at the same time does not wait for."""
    stale = "(SELECT s.feeders_open FROM stale s WHERE s.job = :job AND s.generation = :generation"
    stale += " AND s.position = :position)"
    closes = "UPDATE headrace_stage SET feeders_open = coalesce(" + stale + ", feeders_open) - 1"
    where = " WHERE job = :job AND generation = :generation AND position = :position RETURNING feeders_open"
    return {**statements, "feeder_closed": closes + where}


def overlap(connection: apsw.Connection) -> None:
    """What a transaction that began earlier sees of the stages: refreshed with every second closed stage."""
    connection.execute(
        "CREATE TABLE stale (job TEXT, generation INTEGER, position INTEGER, feeders_open INTEGER, closes INTEGER)"
    )
    connection.execute(
        "CREATE TRIGGER began AFTER INSERT ON headrace_stage BEGIN"
        " INSERT INTO stale VALUES (new.job, new.generation, new.position, new.feeders_open, 0); END"
    )
    connection.execute(
        "CREATE TRIGGER committed AFTER UPDATE OF feeders_open ON headrace_stage BEGIN"
        " UPDATE stale SET closes = closes + 1,"
        " feeders_open = CASE closes % 2 WHEN 1 THEN new.feeders_open ELSE feeders_open END"
        " WHERE job = new.job AND generation = new.generation AND position = new.position; END"
    )


@dataclass(frozen=True, slots=True)
class Bug:
    """What was broken, in words, and the parts that break it."""

    what: str
    parts: SimulatedParts


NO_FENCE_CHECK = changed("claim_held", "k.live, k.step, k.boot, k.until", "1, k.step, k.boot, 9e18")

BUGS: dict[str, Bug] = {
    "no_fence_check": Bug("a settlement is accepted from a late holder", SimulatedParts(NO_FENCE_CHECK)),
    "finish_before_seal": Bug(
        "a stage closes while others may still send to it",
        SimulatedParts(changed("stage_close", "feeders_open = 0 AND", "")),
    ),
    "settled_twice": Bug(
        "what a settlement counts is counted twice",
        SimulatedParts(changed("chunk_fold", "done + :done,", "done + 2 * :done,")),
    ),
    "seal_by_reading": Bug(
        "the seal is derived by reading the feeders", replace(SimulatedParts(read_feeders), prepare=overlap)
    ),
    "crash_charges_all": Bug("a crash charges the whole slice", SimulatedParts(judge=charge_everybody)),
    "append_by_fence": Bug(
        "an append is accepted twice because its fence is newer", SimulatedParts(sink=AppendsByFence)
    ),
    "put_unfenced": Bug("a zombie overwrites what its successor put", SimulatedParts(sink=PutsUnfenced)),
    "effect_after_settle": Bug("an item is settled before its effect is applied", SimulatedParts(hasty=True)),
    "recorded_before_the_fence": Bug(
        "what a handler recorded is applied though its settlement is refused", SimulatedParts(store=RecordsFirst)
    ),
    "awaitable_forgotten": Bug(
        "an item is done although its handler has not run to its end", SimulatedParts(worker=ForgetfulWorker)
    ),
    "fire_and_job_apart": Bug(
        "the row of a fire and its job are two transactions", SimulatedParts(store=scheduling(FiresInTwoTransactions))
    ),
    "moment_from_the_clock": Bug(
        "the moment of a fire is the time at which a worker came to it", SimulatedParts(store=scheduling(FiresNow))
    ),
    "missed_moments_forgotten": Bug(
        "moments at which no worker ran are not made up for", SimulatedParts(store=scheduling(ForgetsMissed))
    ),
    "outage_spends_attempts": Bug("an outage of a sink spends attempts", SimulatedParts(worker=ImpatientWorker)),
    "first_crash_kills": Bug("a culprit dies at its first crash", SimulatedParts(judge=charge_at_once)),
    "tally_folded_twice": Bug(
        "an ended chunk is folded into its stage twice",
        SimulatedParts(changed("stage_fold", "done = stage.done + s.done", "done = stage.done + 2 * s.done")),
    ),
    "closed_with_open_chunks": Bug(
        "a stage closes while a chunk of it is open",
        SimulatedParts(changed("stage_close", "AND s.open = 1", "AND s.open = 2")),
    ),
    "closes_twice": Bug(
        "a closed stage closes again", SimulatedParts(changed("stage_close", "AND closed_at IS NULL", ""))
    ),
    "fences_fall": Bug(
        "a fence is lower than one granted before",
        SimulatedParts(changed("fence_mint", "max(value + 1, :now_us)", "iif(value = 0, :now_us, value - 1)")),
    ),
    "lost_claims_revived": Bug(
        "a renewal revives an expired claim", SimulatedParts(changed("claim_renew", "AND until >= :now", ""))
    ),
    "swept_early": Bug(
        "a live claim is taken", SimulatedParts(changed("claims_expired", "until < :now", "until < :now + 1.0"))
    ),
    "grants_overlap": Bug(
        "a slice does not move the mark as far as it reaches",
        SimulatedParts(changed("chunk_grant", "SET next = :hi,", "SET next = max(:lo + 1, :hi - 1),")),
    ),
    "unique_counts_all": Bug(
        "a key that was there before is inserted again",
        SimulatedParts(changed("unique_insert", "INSERT OR IGNORE", "INSERT OR REPLACE")),
    ),
    "cancel_forgets_the_mark": Bug(
        "cancelled items stay claimable", SimulatedParts(changed("chunk_cancel_waiting", "next = count, ", ""))
    ),
    "steps_not_kept": Bug(
        "a repeated settlement is not recognised", SimulatedParts(changed("claim_step", "step = :step, ", ""))
    ),
    "rest_lost": Bug(
        "what a worker gives back while it goes on waits for nobody",
        SimulatedParts(changed("chunk_back", "SET next = :next", "SET next = next")),
    ),
    "suspects_lost": Bug(
        "what a lost claim held is not given to anybody",
        SimulatedParts(changed("claims_expired", "ORDER BY fence LIMIT 100", "ORDER BY fence LIMIT 0")),
    ),
    "suspects_ended_early": Bug(
        "a claim of suspects ends while more of them will be started", SimulatedParts(worker=EndsSuspectsEarly)
    ),
    "rests_after_suspects": Bug(
        "a worker that lives claims nothing any more", SimulatedParts(worker=RestsAfterSuspects)
    ),
}
