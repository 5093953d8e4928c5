"""Planted bugs: every guard of the account has a broken twin here, and the seeds must notice each of them.

Nothing in the product knows of these. A statement is replaced by name, a pure function or the sink is exchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw

from headrace.adapters.sqlite import SqliteStore
from headrace.core.claims import Settled, Settlement
from headrace.core.losses import Charge, charge
from headrace.runtime.answers import close_unrun
from headrace.runtime.crew import Crew
from headrace.runtime.flow import Flow, Stage
from headrace.runtime.lanes import ItemLane
from headrace.runtime.worker import Worker
from headrace.testing.simulation.sink import Sink
from headrace.testing.simulation.world import Parts


class AppendsByFence(Sink):
    """Takes an append again when its fence is newer: a fence stops a zombie, it does not stop a retry."""

    def once(self, key: str, fence: int) -> bool:
        fences = self.appended.setdefault(key, [])
        if fences and fence <= max(fences):
            return False
        fences.append(fence)
        return True


class PutsUnfenced(Sink):
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
    parts: Parts


NO_FENCE_CHECK = changed("claim_held", "k.live, k.step, k.boot, k.until", "1, k.step, k.boot, 9e18")

BUGS: dict[str, Bug] = {
    "no_fence_check": Bug("a settlement is accepted from a late holder", Parts(NO_FENCE_CHECK)),
    "finish_before_seal": Bug(
        "a stage closes while others may still send to it", Parts(changed("stage_close", "feeders_open = 0 AND", ""))
    ),
    "settled_twice": Bug(
        "what a settlement counts is counted twice", Parts(changed("chunk_fold", "done + :done,", "done + 2 * :done,"))
    ),
    "seal_by_reading": Bug("the seal is derived by reading the feeders", replace(Parts(read_feeders), prepare=overlap)),
    "crash_charges_all": Bug("a crash charges the whole slice", Parts(judge=charge_everybody)),
    "append_by_fence": Bug("an append is accepted twice because its fence is newer", Parts(sink=AppendsByFence)),
    "put_unfenced": Bug("a zombie overwrites what its successor put", Parts(sink=PutsUnfenced)),
    "effect_after_settle": Bug("an item is settled before its effect is applied", Parts(hasty=True)),
    "recorded_before_the_fence": Bug(
        "what a handler recorded is applied though its settlement is refused", Parts(store=RecordsFirst)
    ),
    "awaitable_forgotten": Bug(
        "an item is done although its handler has not run to its end", Parts(worker=ForgetfulWorker)
    ),
    "first_crash_kills": Bug("a culprit dies at its first crash", Parts(judge=charge_at_once)),
    "tally_folded_twice": Bug(
        "an ended chunk is folded into its stage twice",
        Parts(changed("stage_fold", "done = stage.done + s.done", "done = stage.done + 2 * s.done")),
    ),
    "closed_with_open_chunks": Bug(
        "a stage closes while a chunk of it is open", Parts(changed("stage_close", "AND s.open = 1", "AND s.open = 2"))
    ),
    "closes_twice": Bug("a closed stage closes again", Parts(changed("stage_close", "AND closed_at IS NULL", ""))),
    "fences_fall": Bug(
        "a fence is lower than one granted before",
        Parts(changed("fence_mint", "max(value + 1, :now_us)", "iif(value = 0, :now_us, value - 1)")),
    ),
    "lost_claims_revived": Bug(
        "a renewal revives an expired claim", Parts(changed("claim_renew", "AND until >= :now", ""))
    ),
    "swept_early": Bug("a live claim is taken", Parts(changed("claims_expired", "until < :now", "until < :now + 1.0"))),
    "grants_overlap": Bug(
        "a slice does not move the mark as far as it reaches",
        Parts(changed("chunk_grant", "SET next = :hi,", "SET next = max(:lo + 1, :hi - 1),")),
    ),
    "unique_counts_all": Bug(
        "a key that was there before is inserted again",
        Parts(changed("unique_insert", "INSERT OR IGNORE", "INSERT OR REPLACE")),
    ),
    "cancel_forgets_the_mark": Bug(
        "cancelled items stay claimable", Parts(changed("chunk_cancel_waiting", "next = count, ", ""))
    ),
    "steps_not_kept": Bug(
        "a repeated settlement is not recognised", Parts(changed("claim_step", "step = :step, ", ""))
    ),
    "rest_lost": Bug(
        "what a worker gives back while it goes on waits for nobody",
        Parts(changed("chunk_back", "SET next = :next", "SET next = next")),
    ),
    "suspects_lost": Bug(
        "what a lost claim held is not given to anybody",
        Parts(changed("claims_expired", "ORDER BY fence LIMIT 100", "ORDER BY fence LIMIT 0")),
    ),
}
