"""Consuming in batches: receive → handle → acknowledge, in several lanes at a time.

A handler is given a batch and returns when everything that follows from it is done; then the batch is acknowledged. It
may be called again with the same messages, after a failure that passes or by another process, and must then come to the
same end. While it runs its messages are held. A handler that fails for no known reason is called for each message by
itself, so that one message cannot hold up the others; the guilty one becomes a dead letter after some tries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from headrace.errors import HeadraceError, OperatorError, suppress_healing
from headrace.http import TRACEPARENT
from headrace.ports import Bus, Delivery, Subscription
from headrace.services import Pauses, rest
from headrace_smap.envelope import trace_of

HOLD_S = 60.0
POLL_S = 1.0
FAILED_DELAY_S = 1.0

Handle = Callable[[Sequence[Delivery]], Awaitable[None]]
log = structlog.get_logger("smap")


@dataclass(frozen=True, slots=True)
class BatchIntake:
    """What is consumed: up to `room` messages at a time in each of `lanes`."""

    subscription: Subscription
    handle: Handle
    room: int = 200
    lanes: int = 1
    hold_s: float = HOLD_S


class Consumer:
    """Consumes one subscription until it is stopped; `run` is for one use."""

    def __init__(self, bus: Bus, intake: BatchIntake, name: str) -> None:
        self._bus, self._intake, self._name = bus, intake, name
        self._bell = asyncio.Event()

    async def prepare(self) -> None:
        """Open the subscription: what is published from now on waits for it."""
        await self._bus.subscribe(self._intake.subscription)

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop` is set; what is in hand then is finished, unless a failure keeps it: that goes back."""
        loop = asyncio.get_running_loop()

        def ring() -> None:
            loop.call_soon_threadsafe(self._bell.set)

        unsubscribe = self._bus.on_wake(ring)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._intake.lanes):
                    group.create_task(self._lane(f"{self._name}-{number}", stop))
        finally:
            unsubscribe()

    async def _lane(self, consumer: str, stop: asyncio.Event) -> None:
        pauses, subscribed = Pauses(), False
        while not stop.is_set():
            self._bell.clear()
            try:
                if not subscribed:
                    await self.prepare()
                    subscribed = True
                name, intake = self._intake.subscription.name, self._intake
                received = await self._bus.receive(name, consumer, intake.room, intake.hold_s)
            except HeadraceError as error:
                if not error.heals:
                    raise
                log.warning("bus.failing", subscription=self._intake.subscription.name, error=str(error))
                await rest(stop, pauses.next_s())
                continue
            pauses.reset()
            if received.deliveries:
                await self._deal_with(received.deliveries, stop)
            else:
                wait_s = POLL_S if received.wait_s is None else min(POLL_S, max(0.01, received.wait_s))
                await rest(stop, wait_s, self._bell)

    async def _deal_with(self, deliveries: Sequence[Delivery], stop: asyncio.Event) -> None:
        async with self._held(deliveries):
            try:
                done = await self._handled(deliveries, stop)
            except OperatorError:
                # The surroundings are wrong for every message, and waiting does not help: an operator must hear of it.
                await self._surely(self._bus.requeue, deliveries)
                raise
            except Exception as error:
                if len(deliveries) == 1:
                    await self._failed(deliveries[0], error)
                    return
                done = None
        if done is None:
            for delivery in deliveries:
                await self._deal_with([delivery], stop)
        elif done:
            await self._surely(self._bus.ack, deliveries)
        else:
            await self._surely(self._bus.requeue, deliveries)

    async def _handled(self, deliveries: Sequence[Delivery], stop: asyncio.Event) -> bool:
        """Call the handler until it works; False if it was stopped before it did."""
        pauses = Pauses()
        while True:
            try:
                with _logged_trace(deliveries):
                    await self._intake.handle(deliveries)
                return True
            except HeadraceError as error:
                if not error.heals:
                    raise
                name = self._intake.subscription.name
                log.warning("batch.failing", subscription=name, messages=len(deliveries), error=str(error))
                if stop.is_set():
                    return False
                await rest(stop, pauses.next_s())

    async def _failed(self, delivery: Delivery, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"[:500]
        about = {"event_id": delivery.event.event_id, "reason": reason, TRACEPARENT: trace_of(delivery.event)}
        log.error("message.failed", subscription=delivery.subscription, **about)
        try:
            await self._bus.requeue([delivery], FAILED_DELAY_S, reason)
        except HeadraceError as refused:
            if not refused.heals:
                raise
            # A bus that counts failures by publishing may be unable to: what stays in hand would be nobody's.
            await self._surely(self._bus.requeue, [delivery])

    async def _surely(
        self, call: Callable[[Sequence[Delivery]], Awaitable[list[bool]]], held: Sequence[Delivery]
    ) -> None:
        """What cannot be told to the bus is told again by it, and handled again without harm."""
        with suppress_healing():
            await call(held)

    @contextlib.asynccontextmanager
    async def _held(self, deliveries: Sequence[Delivery]) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(self._intake.hold_s / 3)
                with suppress_healing():
                    await self._bus.renew(deliveries, self._intake.hold_s)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()


@contextlib.contextmanager
def _logged_trace(deliveries: Sequence[Delivery]) -> Iterator[None]:
    """Log lines name the trace that these messages belong to, if it is one."""
    traces = {trace_of(delivery.event) for delivery in deliveries}
    known = {TRACEPARENT: next(iter(traces))} if len(traces) == 1 and "" not in traces else {}
    with structlog.contextvars.bound_contextvars(**known):
        yield
