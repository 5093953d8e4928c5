"""Publishing: everything of a call is sent at once, then all confirmations are awaited.

A confirmation says that the message is in every queue it was routed to, on disk. A message that was routed nowhere
comes back before its confirmation. When the channel is lost in between, the outcome is unknown and the caller sends
the same again: a message may be there twice, and never not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile

from headrace.adapters.rabbitmq.channels import BROKEN, SinkChannel
from headrace.adapters.rabbitmq.codec import Arrived, Outgoing, read_brief
from headrace.adapters.rabbitmq.lines import Line
from headrace.core.errors import Busy, Unknown

CONFIRM_S_MAX = 30.0
LOOK_S = 1.0
ALARM = "rabbitmq-diagnostics alarms"


class PublishBatch:
    """The messages of one call: what became of each, and how many are not confirmed yet."""

    def __init__(self, messages: Sequence[Outgoing]) -> None:
        self.ids = [message.message_id for message in messages]
        self.routed = [True] * len(messages)
        self.missing = len(messages)
        self.refused = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody may be left to hear of a loss when the caller was cancelled.
        self.done.add_done_callback(lambda done: done.cancelled() or done.exception())


class Confirmations:
    """The sink of one publishing channel."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[PublishBatch, int]] = {}
        self._next = 1

    def expect(self, batch: PublishBatch) -> None:
        """The broker numbers messages in the order in which they are sent."""
        for index in range(batch.missing):
            self._pending[self._next] = batch, index
            self._next += 1

    def arrived(self, message: Arrived) -> None:
        """Nothing is consumed here."""

    def returned(self, message: Arrived) -> None:
        message_id = read_brief(message.written).message_id
        for batch, index in self._pending.values():
            if batch.routed[index] and batch.ids[index] == message_id:
                batch.routed[index] = False
                return

    def confirmed(self, tag: int, multiple: bool, accepted: bool) -> None:
        # Numbers rise, and a dictionary keeps the order in which they came.
        for number in list(takewhile(lambda pending: pending <= tag, self._pending)) if multiple else (tag,):
            batch, _ = self._pending.pop(number, (None, 0))
            if batch is None:
                continue
            batch.missing -= 1
            batch.refused += not accepted
            if not batch.missing and not batch.done.done():
                batch.done.set_result(None)

    def lost(self, why: str) -> None:
        """The channel is gone: nobody will say what became of these."""
        batches = {id(batch): batch for batch, _ in self._pending.values()}
        self._pending.clear()
        for batch in batches.values():
            if not batch.done.done():
                batch.done.set_exception(Unknown(f"{why} before the confirmation"))


class Publisher:
    """Sends on one channel, opened when it is needed; `prepare` makes what messages are sent to. A broker that is short
    of memory is waited for, `patience_s` long."""

    def __init__(self, line: Line, prepare: Callable[[], Awaitable[None]], patience_s: float) -> None:
        self._line, self._prepare, self._patience_s = line, prepare, patience_s
        self._opening = asyncio.Lock()
        self._channel: SinkChannel | None = None
        self._confirmations = Confirmations()

    async def publish(self, messages: Sequence[Outgoing]) -> list[bool]:
        """For each message whether it was routed to a queue; all are confirmed. `Unknown`: send the same again."""
        if not messages:
            return []
        channel, confirmations = await self._open()
        if await self._line.is_blocked(self._patience_s):
            raise Busy(f"{self._line.place} takes no messages, it is short of memory or disk", ALARM)
        batch = PublishBatch(messages)
        try:
            async with asyncio.timeout(CONFIRM_S_MAX):
                # Numbered when they are handed over and not before: a number for a message that never went out would
                # shift all that follow.
                await channel.send(messages, lambda: confirmations.expect(batch))
                await self._confirmed(batch)
        except TimeoutError as error:
            await self._line.drop(channel)
            raise Unknown(f"{self._line.place} did not confirm within {CONFIRM_S_MAX:g} s") from error
        except BROKEN as error:
            raise Unknown(f"{self._line.place} did not confirm: {error!r}") from error
        if batch.refused:
            raise Unknown(f"{self._line.place} refused {batch.refused} of {len(messages)} messages")
        return batch.routed

    async def _confirmed(self, batch: PublishBatch) -> None:
        while not batch.done.done():
            await asyncio.wait((batch.done,), timeout=LOOK_S)
            if not batch.done.done() and await self._line.is_blocked(self._patience_s):
                raise Unknown(f"{self._line.place} is short of memory or disk and confirms nothing", ALARM)
        batch.done.result()

    async def _open(self) -> tuple[SinkChannel, Confirmations]:
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                await self._prepare()
                confirmations = Confirmations()
                channel = await self._line.sink_channel(confirmations, confirms=True)
                channel.driver.closing.add_done_callback(lambda _: confirmations.lost(f"{self._line.place} was lost"))
                self._channel, self._confirmations = channel, confirmations
            return self._channel, self._confirmations
