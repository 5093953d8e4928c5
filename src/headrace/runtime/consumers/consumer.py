"""Consuming in batches: receive → handle → commit → acknowledge, in several lanes at a time.

    async def handle(deliveries: Sequence[Delivery]) -> Answers:
        await commit(delivery.event.body for delivery in deliveries)      # None: all of them are done

    consumer = Consumer(bus, Subscription("orders", ("order.*",)), handle, ConsumerOptions(batch_max=200, lanes=4))
    await consumer.run(stop)                                              # until the event is set, or drain() is called

Whoever commits, a message is acknowledged after that: either the handler has done everything when it returns, or it
says what follows and an inbox applies that once. So a message may be delivered, handled and killed any number of times,
and a handler must come to the same end each time.

*A refusal* (`Dead`) puts a message aside with its reason. *An outage* (an error that heals) is no message's fault: the
same call is made again after a pause, with the messages held and nothing spent. *A failure* for no known reason is one
message's, so the batch is handled in halves, and what fails alone is charged. *A loss* may be too: a message whose
consumer vanished comes alone, and nothing else of this consumer runs beside it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from headrace.core.consequences import Consequence
from headrace.core.deliveries import RECEIVE_MAX, Delivery, Subscription
from headrace.core.errors import CallerError, HeadraceError, NotFound, OperatorError, suppress_healing
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.redaction import redacted_text
from headrace.core.traces import TRACEPARENT
from headrace.ports.bus import Bus
from headrace.ports.outbox import Inbox
from headrace.runtime.consumers.answers import Answer, BatchHandler
from headrace.runtime.consumers.calls import BatchCalls, trace_of
from headrace.runtime.consumers.options import ConsumerOptions
from headrace.runtime.failed_attempts import trace
from headrace.runtime.observe import Observer
from headrace.runtime.pacing import Pace

Token = tuple[int, int]
Ending = Callable[[], Awaitable[list[bool]]]
WAIT_S_MIN = 0.01


class Consumer:
    """Consumes one subscription. Any number may run; `run` is for one use. With an `inbox`, what the handler answers
    is committed there, each message once; without, the handler has committed when it returns."""

    def __init__(
        self,
        bus: Bus,
        subscription: Subscription,
        handle: BatchHandler,
        options: ConsumerOptions | None = None,
        *,
        inbox: Inbox | None = None,
    ) -> None:
        self._bus, self._subscription, self._inbox = bus, subscription, inbox
        self._options = options or ConsumerOptions()
        self._seams = self._options.seams
        self.id = self._options.id or self._seams.identity.new()
        self.observer = Observer(self.id)
        self._pace = Pace(self._seams, self.observer)
        self._calls = BatchCalls(handle, self._options.timeout_s, self._pace, commits=inbox is not None)
        self._held: dict[Token, Delivery] = {}
        self._ready: deque[Delivery] = deque()
        self._done: list[Delivery] = []
        self._subscribed = False
        self._turn = asyncio.Lock()
        self._news, self._fewer = asyncio.Event(), asyncio.Event()

    async def prepare(self) -> None:
        """Open the subscription: what is published from now on waits for it."""
        await self._bus.subscribe(self._subscription)
        self._subscribed = True

    def drain(self) -> None:
        """Receive nothing more and give back what was not started; `run` returns when the rest is dealt with."""
        self._pace.drain()
        self._fewer.set()

    async def run(self, stop: asyncio.Event | None = None) -> None:
        """Consume until `stop` is set or it is drained. What is in hand then is finished, unless an outage keeps it:
        that goes back. Raises what made going on impossible."""
        self._pace.start()
        unsubscribe = self._bus.on_wake(self._pace.ring)
        try:
            async with asyncio.TaskGroup() as group:
                loops = (self._ack_for_ever(), self._renew_for_ever(), self._drain_at(stop))
                beside = [group.create_task(loop) for loop in loops]
                await asyncio.wait([group.create_task(self._lane()) for _ in range(self._options.lanes)])
                await self._give_back_unstarted()
                await self._until_held(0)
                for task in beside:
                    task.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            unsubscribe()

    # Receiving

    async def _lane(self) -> None:
        while batch := await self._next_batch():
            await self._deal_with(batch)

    async def _next_batch(self) -> list[Delivery]:
        """Messages for one call, received by one lane for all; none when it is over."""
        async with self._turn:
            while not self._pace.draining:
                batch = self._started()
                if batch and batch[0].alone:
                    await self._alone(batch)
                elif batch:
                    return batch
                else:
                    await self._receive()
        return []

    def _started(self) -> list[Delivery]:
        """Take what fits into one call from what was received; a message that must be alone is a batch of its own."""
        ready, batch = self._ready, list[Delivery]()
        while ready and len(batch) < self._options.batch_max and not (batch and (ready[0].alone or batch[0].alone)):
            if token(delivery := ready.popleft()) in self._held:
                batch.append(delivery)
        return batch

    async def _receive(self) -> None:
        pace, options = self._pace, self._options
        pace.listen()
        room = min(options.held_max - len(self._held), RECEIVE_MAX)
        if room <= 0:
            await self._fewer_held()
            return
        try:
            if not self._subscribed:
                await self.prepare()
            received = await self._bus.receive(self._subscription.name, self.id, room, options.hold_s)
        except HeadraceError as error:
            if not error.heals:
                raise
            await pace.back_off("bus.failing", error)
            return
        pace.recovered()
        self._held.update((token(delivery), delivery) for delivery in received.deliveries)
        self._ready.extend(received.deliveries)
        if not received.deliveries:
            wait_s = options.poll_s if received.wait_s is None else min(options.poll_s, received.wait_s)
            await pace.rest(max(WAIT_S_MIN, wait_s))

    async def _alone(self, batch: list[Delivery]) -> None:
        """Its last consumer was lost with it: nothing else runs beside it, so that a crash charges only the guilty."""
        while len(self._held) - self._waiting() > 1 and not self._pace.draining:
            await self._fewer_held()
        await self._deal_with(batch)
        while token(batch[0]) in self._held:
            await self._fewer_held()

    def _waiting(self) -> int:
        """Messages in hand that no call has; the hold of one that was received may be lost before its turn."""
        return sum(token(delivery) in self._held for delivery in self._ready)

    async def _until_held(self, count: int) -> None:
        """Wait until no more than so many messages are in hand."""
        while len(self._held) > count:
            await self._fewer_held()

    async def _fewer_held(self) -> None:
        self._fewer.clear()
        await self._fewer.wait()

    async def _drain_at(self, stop: asyncio.Event | None) -> None:
        if stop is not None:
            await stop.wait()
            self.drain()
        await self._pace.over()
        await self._give_back_unstarted()

    async def _give_back_unstarted(self) -> None:
        unstarted = [self._ready.popleft() for _ in range(len(self._ready))]
        await self._give_back(unstarted)

    async def _give_back(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            await self._settle(deliveries, partial(self._bus.requeue, deliveries))

    # Handling

    async def _deal_with(self, batch: Sequence[Delivery]) -> None:
        """From the call of the handler to the end of each message."""
        batch = [delivery for delivery in batch if token(delivery) in self._held]
        if not batch:
            return
        if self._pace.draining:
            await self._give_back(batch)
            return
        try:
            answers = await self._calls.answers(batch)
        except OperatorError:
            # The surroundings are wrong for every message, and waiting does not help: an operator must act.
            await self._give_back(batch)
            raise
        if answers is None:
            await self._halve(batch)
        else:
            await self._conclude(batch, answers)

    async def _halve(self, batch: Sequence[Delivery]) -> None:
        middle = len(batch) // 2
        await self._deal_with(batch[:middle])
        await self._deal_with(batch[middle:])

    async def _conclude(self, batch: Sequence[Delivery], answers: Sequence[Answer]) -> None:
        refused: dict[Dead, list[Delivery]] = {}
        snoozed: dict[float, list[Delivery]] = {}
        done: list[Delivery] = []
        for delivery, answer in zip(batch, answers, strict=True):
            match answer:
                case Dead() as dead:
                    refused.setdefault(dead, []).append(delivery)
                case Snooze(after_s=after_s):
                    snoozed.setdefault(after_s, []).append(delivery)
                case Retry() as failed:
                    await self._fail(delivery, failed)
                case _ if self._inbox is None:
                    done.append(delivery)
                case _:
                    await self._consume(self._inbox, delivery, answer)
        self._acknowledge(done)
        for dead, some in refused.items():
            await self._refuse(some, dead)
        for after_s, some in snoozed.items():
            await self._settle(some, partial(self._bus.requeue, some, after_s))

    async def _consume(self, inbox: Inbox, delivery: Delivery, answer: Answer) -> None:
        """Apply the consequence; after a lost answer the same again, for as long as the message may be ours."""
        name, event_id = self._subscription.name, delivery.event.event_id
        consequence = answer if isinstance(answer, Consequence) else Consequence()
        while token(delivery) in self._held:
            try:
                consumed = await inbox.consume(name, event_id, consequence)
            except NotFound as error:
                # What a message speaks of may still come: another message may be on its way with it.
                await self._fail(delivery, Retry(str(error)))
                return
            except CallerError as error:
                await self._refuse([delivery], Dead(str(error)))
                return
            except HeadraceError as error:
                if not error.heals:
                    raise
                await self._pace.back_off("store.failing", error)
                if self._pace.draining:
                    await self._give_back([delivery])
                continue
            self.observer.count("messages.consumed" if consumed.new else "messages.repeated", 1)
            self._acknowledge([delivery])
            return

    async def _refuse(self, deliveries: Sequence[Delivery], dead: Dead) -> None:
        for delivery in deliveries:
            self._tell("message.dead", delivery, dead)
        await self._settle(deliveries, partial(self._bus.dead_letter, deliveries, dead.reason))

    async def _fail(self, delivery: Delivery, failed: Retry) -> None:
        wait_s = failed.after_s
        if wait_s is None:
            wait_s = self._options.retry.delay_s(delivery.failures + 1, self._seams.chance.random())
        self._tell("message.failed", delivery, failed)
        reason = failed.reason or "failed"
        await self._settle([delivery], partial(self._bus.requeue, [delivery], wait_s, reason))

    def _tell(self, event: str, delivery: Delivery, outcome: Retry | Dead) -> None:
        trail = trace(outcome if outcome.__cause__ is None else outcome.__cause__)
        traced = {TRACEPARENT: found} if (found := trace_of(delivery.event)) else {}
        self.observer.event(
            event,
            subscription=self._subscription.name,
            event_id=delivery.event.event_id,
            reason=redacted_text(outcome.reason),
            traceback=trail,
            **traced,
        )

    # How messages end

    def _acknowledge(self, deliveries: Sequence[Delivery]) -> None:
        self._done.extend(deliveries)
        self._news.set()

    async def _ack_for_ever(self) -> None:
        """One call at a time: what is dealt with meanwhile shares the next one."""
        while True:
            await self._news.wait()
            self._news.clear()
            done, self._done = self._done, []
            if done:
                # What the bus did not hear comes again, and is then a repeat.
                await self._told(partial(self._bus.ack, done))
                self._let_go(done)

    async def _settle(self, deliveries: Sequence[Delivery], call: Ending) -> None:
        """Tell the bus what becomes of these. A bus that counts and buries by publishing may be unable to: then they
        are given back as they are, because what is not ended stays in our hands."""
        if not await self._told(call):
            with suppress_healing():
                await self._bus.requeue(deliveries)
        self._let_go(deliveries)

    async def _told(self, call: Ending) -> bool:
        try:
            await self._pace.surely(call)
        except HeadraceError as error:
            if not error.heals:
                raise
            self.observer.event("bus.failing", error=type(error).__name__, detail=str(error))
            return False
        return True

    def _let_go(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._held.pop(token(delivery), None)
        self._fewer.set()

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
            self._let_go([delivery for delivery, still in zip(held, kept, strict=True) if not still])


def token(delivery: Delivery) -> Token:
    """The same message may be here twice: delivered again while an earlier handler of it still runs."""
    return delivery.number, delivery.fence
