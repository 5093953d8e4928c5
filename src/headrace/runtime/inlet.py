"""The inlet: bus → store. Each message is consumed once, together with what follows from it.

    async def on_approval(delivery: Delivery) -> Consequence:
        return Consequence(closes=((job_of(delivery.event), "approve"),))

    inlet = Inlet(bus, store.inbox, Intake(Subscription("approvals", ("approval.*",)), on_approval))
    await inlet.run()           # until somebody calls inlet.drain()

A handler only says what follows; inbox row and consequence are then one transaction, and the message is acknowledged
after its commit. So it may be delivered, handled and killed any number of times. A message that cannot be consumed
goes to the dead letters with its reason and holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from headrace.core.claims import HOLD_S, TIMEOUT_S
from headrace.core.consequences import Consequence
from headrace.core.deliveries import RECEIVE_MAX, Delivery, Subscription
from headrace.core.errors import CallerError, HeadraceError, NotFound
from headrace.core.outcomes import OUTCOMES, Dead, Done, Retry, Snooze, flaw
from headrace.core.redaction import redacted_text
from headrace.core.retry import RetryPolicy
from headrace.ports.bus import Bus
from headrace.ports.outbox import Inbox
from headrace.runtime.answers import shown
from headrace.runtime.failed_attempts import in_words, trace
from headrace.runtime.interruptions import interrupts
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import SERVER, Pace
from headrace.runtime.seams import Seams

Answer = Consequence | Done | Retry | Dead | Snooze | None
Handler = Callable[[Delivery], Awaitable[Answer]]
Token = tuple[int, int]
P = ParamSpec("P")
WAIT_S_MIN = 0.01


@dataclass(frozen=True, slots=True)
class InletOptions:
    """`concurrency` messages are handled at a time and `prefetch` held, each for `hold_s` and renewed at a third of it.
    `retry` says how long a message waits after a failure; how often it may fail is the subscription's. `poll_s`: how
    long an idle inlet trusts that it would be woken. `id` is made up when it is empty."""

    concurrency: int = 8
    prefetch: int = 16
    hold_s: float = HOLD_S
    timeout_s: float = TIMEOUT_S
    poll_s: float = 1.0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    id: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= self.prefetch <= RECEIVE_MAX:
            raise CallerError(f"{self!r} cannot work", f"1 ≤ concurrency ≤ prefetch ≤ {RECEIVE_MAX}")
        if min(self.hold_s, self.timeout_s, self.poll_s) <= 0:
            raise CallerError(f"{self!r} cannot work", "all times must be above 0")


@dataclass(frozen=True, slots=True)
class Intake:
    """What is consumed, and what follows from it."""

    subscription: Subscription
    handle: Handler
    options: InletOptions = field(default_factory=InletOptions)


class Inlet:
    """Consumes one subscription. Any number may run; `run` is for one use."""

    def __init__(self, bus: Bus, inbox: Inbox, intake: Intake, seams: Seams | None = None) -> None:
        self._bus, self._inbox, self._seams = bus, inbox, seams or Seams()
        self._subscription, self._handle, self._options = intake.subscription, intake.handle, intake.options
        self.id = self._options.id or self._seams.identity.new()
        self.observer = Observer(self.id)
        self._pace = Pace(self._seams, self.observer)
        self._held: dict[Token, Delivery] = {}
        self._queue: asyncio.Queue[Delivery | None] = asyncio.Queue()
        self._done: list[Delivery] = []
        self._news, self._fewer = asyncio.Event(), asyncio.Event()

    def drain(self) -> None:
        """Receive nothing more and give back what was not started; `run` returns when the rest is dealt with."""
        self._pace.drain()
        self._fewer.set()

    async def run(self) -> None:
        """Consume until drained. Raises what made going on impossible."""
        self._pace.start()
        unsubscribe = self._bus.on_wake(self._pace.ring)
        try:
            async with asyncio.TaskGroup() as group:
                services = [group.create_task(self._ack_for_ever()), group.create_task(self._renew_for_ever())]
                lanes = [group.create_task(self._lane()) for _ in range(self._options.concurrency)]
                await self._receive_for_ever()
                await asyncio.wait(lanes)
                await self._until_held(0)
                for service in services:
                    service.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            unsubscribe()

    # Receiving

    async def _receive_for_ever(self) -> None:
        pace, options, subscribed = self._pace, self._options, False
        while not pace.draining:
            pace.listen()
            room = options.prefetch - len(self._held)
            if room <= 0:
                self._fewer.clear()
                await self._fewer.wait()
                continue
            try:
                if not subscribed:
                    await self._bus.subscribe(self._subscription)
                    subscribed = True
                received = await self._bus.receive(self._subscription.name, self.id, room, options.hold_s)
            except HeadraceError as error:
                if not error.heals:
                    raise
                await pace.back_off("bus.failing", error)
                continue
            pace.recovered()
            for delivery in received.deliveries:
                await self._accept(delivery)
            if not received.deliveries:
                wait_s = options.poll_s if received.wait_s is None else min(options.poll_s, received.wait_s)
                await pace.rest(max(WAIT_S_MIN, wait_s))
        await self._give_back()

    async def _accept(self, delivery: Delivery) -> None:
        self._held[token(delivery)] = delivery
        if not delivery.alone:
            self._queue.put_nowait(delivery)
            return
        # Its last consumer was lost with it: nothing else runs beside it, so that a crash charges only the guilty.
        await self._until_held(1)
        await self._deal_with(delivery)
        await self._until_held(0)

    async def _until_held(self, count: int) -> None:
        """Wait until no more than so many messages are in hand."""
        while len(self._held) > count:
            self._fewer.clear()
            await self._fewer.wait()

    async def _give_back(self) -> None:
        """What nobody has started goes back at once, and the lanes end."""
        unstarted = [delivery for _ in range(self._queue.qsize()) if (delivery := self._queue.get_nowait())]
        if unstarted:
            await self._settle(unstarted, self._bus.requeue, unstarted)
        for _ in range(self._options.concurrency):
            self._queue.put_nowait(None)

    # Handling

    async def _lane(self) -> None:
        while (delivery := await self._queue.get()) is not None:
            if token(delivery) in self._held:
                await self._deal_with(delivery)

    async def _deal_with(self, delivery: Delivery) -> None:
        match await self._answer(delivery):
            case Dead() as dead:
                await self._bury(delivery, dead)
            case Snooze(after_s=after_s):
                await self._settle([delivery], self._bus.requeue, [delivery], after_s)
            case Retry() as failed:
                await self._fail(delivery, failed)
            case Consequence() as consequence:
                await self._consume(delivery, consequence)
            case _:
                await self._consume(delivery, Consequence())

    async def _answer(self, delivery: Delivery) -> Answer:
        """What the handler answered. A failure has the error that caused it as its cause."""
        answer: Any
        lane = asyncio.current_task()
        try:
            async with asyncio.timeout(self._options.timeout_s):
                answer = await self._handle(delivery)
        except (Dead, Retry, Snooze) as outcome:
            answer = outcome
        except BaseException as error:  # a handler may raise anything
            if _is_foreign(error, lane):
                raise
            if isinstance(error, HeadraceError) and error.heals:
                # What it needs does not answer. That is not the message's fault, and counts for nothing.
                self.observer.event("sink.failing", error=type(error).__name__, detail=redacted_text(str(error)))
                return Snooze(SERVER.max_s)
            return _failure(in_words(error), error)
        if words := flaw(answer):
            return Retry(f"the handler gave an outcome that cannot be applied: {words}")
        if answer is None or isinstance(answer, (Consequence, *OUTCOMES)):
            return answer
        return Retry(f"the handler returned {shown(answer)}; it may return None, a Consequence or an outcome")

    async def _consume(self, delivery: Delivery, consequence: Consequence) -> None:
        """Apply the consequence; after a lost answer the same again, for as long as the message may be ours."""
        name, event_id = self._subscription.name, delivery.event.event_id
        while token(delivery) in self._held:
            try:
                consumed = await self._inbox.consume(name, event_id, consequence)
            except NotFound as error:
                # What a message speaks of may still come: another message may be on its way with it.
                await self._fail(delivery, Retry(str(error)))
                return
            except CallerError as error:
                await self._bury(delivery, Dead(str(error)))
                return
            except HeadraceError as error:
                if not error.heals:
                    raise
                await self._pace.back_off("store.failing", error)
                if self._pace.draining:
                    self._let_go(delivery)
                continue
            self.observer.count("messages.consumed" if consumed.new else "messages.repeated", 1)
            self._done.append(delivery)
            self._news.set()
            return

    async def _fail(self, delivery: Delivery, failed: Retry) -> None:
        wait_s = failed.after_s
        if wait_s is None:
            wait_s = self._options.retry.delay_s(delivery.failures + 1, self._seams.chance.random())
        self._tell("message.failed", delivery, failed)
        await self._settle([delivery], self._bus.requeue, [delivery], wait_s, failed.reason or "failed")

    async def _bury(self, delivery: Delivery, dead: Dead) -> None:
        self._tell("message.dead", delivery, dead)
        await self._settle([delivery], self._bus.dead_letter, [delivery], dead.reason)

    def _tell(self, event: str, delivery: Delivery, outcome: Retry | Dead) -> None:
        trail = trace(outcome if outcome.__cause__ is None else outcome.__cause__)
        self.observer.event(
            event,
            subscription=self._subscription.name,
            event_id=delivery.event.event_id,
            reason=redacted_text(outcome.reason),
            traceback=trail,
        )

    async def _settle(
        self,
        deliveries: Sequence[Delivery],
        call: Callable[P, Awaitable[list[bool]]],
        *values: P.args,
        **named: P.kwargs,
    ) -> None:
        """Tell the bus, and let go whatever it answers: what it did not hear comes again and is then a repeat."""
        try:
            await self._pace.surely(call, *values, **named)
        except HeadraceError as error:
            if not error.heals:
                raise
            self.observer.event("bus.failing", error=type(error).__name__, detail=str(error))
        for delivery in deliveries:
            self._let_go(delivery)

    def _let_go(self, delivery: Delivery) -> None:
        self._held.pop(token(delivery), None)
        self._fewer.set()

    # Beside the handling

    async def _ack_for_ever(self) -> None:
        """One call at a time: what is dealt with meanwhile shares the next one."""
        while True:
            await self._news.wait()
            self._news.clear()
            done, self._done = self._done, []
            await self._settle(done, self._bus.ack, done)

    async def _renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(self._options.hold_s / 3)
            held = list(self._held.values())
            if not held:
                continue
            try:
                kept = await self._bus.renew(held, self._options.hold_s)
            except HeadraceError as error:
                if not error.heals:
                    raise
                self.observer.event("renew.failed", error=type(error).__name__, detail=str(error))
                continue
            for delivery, still in zip(held, kept, strict=True):
                if not still:
                    self._let_go(delivery)


def token(delivery: Delivery) -> Token:
    """The same message may be here twice: delivered again while an earlier handler of it still runs."""
    return delivery.number, delivery.fence


def _failure(reason: str, error: BaseException) -> Retry:
    failed = Retry(reason)
    failed.__cause__ = error
    return failed


def _is_foreign(error: BaseException, lane: asyncio.Task[Any] | None) -> bool:
    """Whether an error is not the handler's: its lane is being ended, or interrupted from outside. What the handler
    waited for may have been cancelled as well; that is its own affair, and a lane that ended of it would be missed by
    nobody while its message is held for ever."""
    if isinstance(error, asyncio.CancelledError):
        return lane is not None and lane.cancelling() > 0
    return interrupts(error, lane)
