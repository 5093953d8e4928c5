"""How held items end: settled, given back, or lost, in which case nothing is written."""

from __future__ import annotations

import inspect
from dataclasses import replace

from headrace.core.claims import Loss
from headrace.core.deliveries import REASON_CHARS_MAX
from headrace.core.errors import ClaimLost
from headrace.core.losses import WORKER_LOST
from headrace.core.outcomes import Done, Snooze
from headrace.core.retry import Verdict
from headrace.core.sources import HeldItem, ItemSettlement, ItemState
from headrace.runtime.answers import close_unrun
from headrace.runtime.failed_attempts import FailedAttempt, Reporter, frames, trace
from headrace.runtime.judgement import judge, usable
from headrace.runtime.outages import Outages
from headrace.runtime.sources.calls import Call, SourceCalls
from headrace.runtime.sources.handler_run import Answer, HandlerRun
from headrace.runtime.sources.holds import Hold
from headrace.runtime.sources.options import SourceOptions


class Endings:
    """Judges answers as the worker of a store does, and writes what came of them. `flow` and `name` are what its
    circuit breaker goes by."""

    flow = ""

    def __init__(self, calls: SourceCalls, options: SourceOptions, outages: Outages) -> None:
        self._calls, self._options, self._outages = calls, options, outages
        self._observer = calls.observer
        self._reporter = Reporter(calls.observer, options.on_error)
        self.name = options.name

    async def settle(self, hold: Hold, answer: Answer, run: HandlerRun) -> None:
        """Write what a handler answered or raised."""
        if isinstance(answer, ClaimLost) and answer.fence == hold.held.fence:
            # A sink knows before the source told us: another worker holds the item, and this is no attempt.
            hold.lose("sink")
            self.lost(hold, "sink")
            return
        hold.settling = True
        settlement = self.settlement(hold, answer, run)
        call = self._calls.source.settle
        accepted = await self._written("settle", hold, lambda: call(hold.held, settlement))
        if accepted:
            self._observer.count(f"items.{settlement.state}", 1)
            self._tell_settled(hold.held, settlement)

    async def begin_alone(self, hold: Hold) -> bool:
        """Say that a suspect is started now; False: it is not ours any more."""
        return await self._written("begin_alone", hold, lambda: self._calls.source.begin_alone(hold.held))

    async def bury(self, hold: Hold) -> None:
        """It was alone in too many lost holds: it dies without being started again, and no attempt is spent."""
        held, hold.settling = hold.held, True
        failure = replace(WORKER_LOST, attempts=held.attempts)
        settlement = ItemSettlement(ItemState.DEAD, held.attempts, self._calls.seams.clock.wall(), failure=failure)
        if await self._written("settle", hold, lambda: self._calls.source.settle(held, settlement)):
            self._observer.event("item.dead", key=held.key, fence=held.fence, reason=failure.reason, rule=failure.rule)
            self._observer.count(f"items.{settlement.state}", 1)
            self._tell_settled(held, settlement)

    async def give_back(self, hold: Hold) -> None:
        """No attempt is spent, and the item waits for others at once."""
        hold.settling = True
        if await self._written("give_back", hold, lambda: self._calls.source.give_back(hold.held)):
            self._observer.count("items.given_back", 1)

    def lost(self, hold: Hold, reason: str) -> None:
        """Nothing is written; the item comes back to whoever polls when its hold has passed."""
        hold.lose(reason)
        self._observer.event("hold.lost", key=hold.held.key, fence=hold.held.fence, reason=reason)

    async def _written(self, name: str, hold: Hold, call: Call) -> bool:
        try:
            answer = await self._calls.repeat(name, hold, call, self._options.answer_s_max)
        except Exception as error:  # repeating cannot heal it, and the other items must not suffer for this one
            self._observer.event(
                f"{name}.failed", key=hold.held.key, error=type(error).__name__, traceback=trace(error)
            )
            hold.lose("unsettleable")
            return False
        if not answer:
            self.lost(hold, "unanswered" if answer is None else "refused")
        return bool(answer)

    def settlement(self, hold: Hold, answer: Answer, run: HandlerRun) -> ItemSettlement:
        """What the answer means: decided once, and the same in every repeat."""
        held, clock = hold.held, self._calls.seams.clock
        base = ItemSettlement(ItemState.DONE, held.attempts, clock.wall(), self._calls.now() - run.began_at)
        if answer is None or isinstance(answer, Done):
            self._outages.passed(self, hold.number)
            return replace(base, attempts=held.attempts + 1, result=run.context.result)
        answer = usable(self.name, answer)
        policy = self._options.retry
        if held.attempts_max is not None:
            policy = replace(policy, attempts_max=max(1, held.attempts_max))
        outage = self._outages.found_in(answer, policy)
        if outage is not None:
            return replace(base, state=ItemState.AGAIN, delay_s=self._outages.failed(self, outage))
        self._outages.passed(self, hold.number)
        judged = judge(answer, held.attempts, policy, self._calls.seams.chance)
        verdict = judged.verdict
        again = verdict.delay_s is not None
        if not isinstance(answer, Snooze):
            attempt = FailedAttempt(held.key, self.name, 0, held.key, verdict.attempt, dead=not again)
            self._tell_failed(answer, attempt, verdict, judged.trail)
        return replace(
            base,
            state=ItemState.AGAIN if again else ItemState.DEAD,
            attempts=verdict.attempt,
            delay_s=verdict.delay_s or 0.0,
            failure=None
            if isinstance(answer, Snooze)
            else Loss(0, verdict.reason, verdict.rule, judged.failure, verdict.attempt, judged.trail),
            result=run.context.result,
        )

    def _tell_failed(self, answer: BaseException, attempt: FailedAttempt, verdict: Verdict, trail: str) -> None:
        reason = verdict.reason[:REASON_CHARS_MAX]
        if not self._options.quotes_errors:
            # A reason of several words is the handler's own text.
            reason = reason if reason.isidentifier() else verdict.rule
            trail = frames(answer) if trail else ""
        self._reporter.failed(answer, attempt, reason, trail)

    def _tell_settled(self, held: HeldItem, settlement: ItemSettlement) -> None:
        if self._options.on_settled is None:
            return
        try:
            answer = self._options.on_settled(held, settlement)
            if inspect.isawaitable(answer):
                close_unrun(answer)
                raise TypeError("on_settled returned an awaitable, and nobody awaits it: make it a plain function")
        except KeyboardInterrupt:
            raise
        except BaseException as broken:  # user code may raise anything, and the item has ended all the same
            self._observer.event("on_settled.failed", error=type(broken).__name__, traceback=trace(broken))
