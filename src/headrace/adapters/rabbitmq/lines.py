"""A line: one connection to the broker, which is opened again whenever it is needed and not there.

The driver's own way of coming back is not used: what a consumer or a publisher must do after a loss is known only to
it. Whoever finds its channel closed opens another one here. Attempts that fail are spaced out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from aiormq import Channel, Connection, InvalidFrameError
from aiormq.abc import AbstractChannel
from aiormq.exceptions import (
    AMQPChannelError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelLockedResource,
    ConnectionNotAllowed,
    ProbableAuthenticationError,
)
from yarl import URL

from headrace.adapters.rabbitmq.channels import BROKEN, QuickChannel, SinkChannel
from headrace.adapters.rabbitmq.plain_channels import PlainChannel
from headrace.adapters.rabbitmq.taps import FrameSink, Tap, TappedTransport
from headrace.core.backoff import Backoff
from headrace.core.errors import OperatorError, Unreachable

CONNECT_S_MAX = 10.0
CALL_S_MAX = 20.0
CLOSE_S_MAX = 3.0
HEARTBEAT_S = 10
PAUSES = Backoff(0.05, 2.0)
REFUSED = (AuthenticationError, ProbableAuthenticationError, ConnectionNotAllowed, InvalidFrameError)
T = TypeVar("T")


class Line:
    """One connection at a time. `name` is what the broker's operator sees. `trusted`: somebody got in by this URL, so
    that a refusal is a bad moment of the broker and no mistake in the URL. `plain`: without a tap."""

    def __init__(self, url: str, name: str, plain: bool = False) -> None:
        address = URL(url)
        self._url = address if "heartbeat" in address.query else address.update_query(heartbeat=HEARTBEAT_S)
        self._name, self._plain = name, plain
        self._connection: Connection | None = None
        self._tap: Tap | None = None
        self._running: set[asyncio.Task[Any]] = set()
        self._opening = asyncio.Lock()
        self._failures, self._not_before = 0, 0.0
        self.trusted = self._is_closed = False
        # What the driver has to say is said by errors; without a handler it would print it besides.
        driver = logging.getLogger("aiormq")
        if not driver.handlers:
            driver.addHandler(logging.NullHandler())

    @property
    def place(self) -> str:
        """Where it leads, without a password."""
        return f"{self._url.scheme}://{self._url.host}:{self._url.port or 5672}{self._url.raw_path}"

    async def connection(self) -> Connection:
        """The connection, opened if need be. `Unreachable`: not now."""
        if self._connection is not None and self._connection.is_opened:
            return self._connection
        async with self._opening:
            if self._is_closed:
                raise Unreachable(f"the connection to {self.place} was closed")
            if self._connection is not None and self._connection.is_opened:
                return self._connection
            await asyncio.sleep(self._not_before - asyncio.get_running_loop().time())
            await self._discard()
            self._connection = await self._open()
        return self._connection

    async def sink_channel(self, sink: FrameSink, confirms: bool) -> SinkChannel:
        """A channel whose messages and confirmations go to the sink."""
        connection = await self.connection()
        tap = self._tap

        async def opened() -> SinkChannel:
            driver = await connection.channel(publisher_confirms=confirms)
            return (
                PlainChannel(connection, driver, sink) if tap is None else QuickChannel(connection, driver, tap, sink)
            )

        return await self.call(opened())

    async def aside(self, work: Callable[[AbstractChannel], Awaitable[T]], *expected: type[AMQPChannelError]) -> T:
        """A few calls on a channel of their own; one of them may fail and close it, and nobody else is disturbed."""
        connection = await self.connection()

        async def worked() -> T:
            channel = await connection.channel(publisher_confirms=False)
            try:
                return await work(channel)
            finally:
                await quietly(channel)

        return await self.call(worked(), *expected)

    async def is_blocked(self, patience_s: float) -> bool:
        """Whether the broker has asked us to send nothing, for want of memory or disk, and still does so after a
        while: most of these moments pass."""
        if self._connection is None or not self._connection.is_opened:
            return False
        try:
            async with asyncio.timeout(patience_s):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def call(self, calls: Coroutine[Any, Any, T], *expected: type[AMQPChannelError]) -> T:
        """Calls to the broker. Refusals that are expected pass as they are; what goes wrong with the line or with the
        channel is `Unreachable`.

        They run to their end even if the caller is cancelled: a call that the driver gives up half-way makes it close
        the channel once more, and on a channel that is closed already the broker answers by closing the connection.
        """
        running = asyncio.create_task(self._calling(calls, expected))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(running)

    async def _calling(self, calls: Coroutine[Any, Any, T], expected: tuple[type[AMQPChannelError], ...]) -> T:
        try:
            async with asyncio.timeout(CALL_S_MAX):
                return await calls
        except expected:
            raise
        except (ChannelAccessRefused, ChannelLockedResource) as error:
            hint = "the user needs the rights to configure, write and read; no other program may own it exclusively"
            raise OperatorError(f"{self.place} refuses: {error}", hint) from error
        except asyncio.CancelledError:
            # The driver cancels those who wait on a channel that it closes; that is not the caller's cancellation.
            if is_cancelled():
                raise
            raise Unreachable(f"the connection to {self.place} was lost") from None
        except TimeoutError as error:
            await self.drop()
            raise Unreachable(f"{self.place} did not answer within {CALL_S_MAX:g} s") from error
        except BROKEN as error:
            raise Unreachable(f"{self.place} broke off: {error!r}") from error

    async def drop(self, channel: SinkChannel | None = None) -> None:
        """Give the connection (the one of this channel) up, because it does not answer; the next one who needs it
        opens another."""
        connection = self._connection
        if connection is not None and (channel is None or channel.connection is connection):
            self._connection = None
            await quietly(connection)

    async def close(self) -> None:
        """For good."""
        self._is_closed = True
        await self.drop()
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_S_MAX)

    async def _open(self) -> Connection:
        transport = None if self._plain else TappedTransport()
        connection = Connection(self._url.update_query(name=self._name), transport_factory=transport)
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await connection.connect()
        except (*BROKEN, asyncio.CancelledError) as error:
            await quietly(connection)
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            self._failures += 1
            pause_s = PAUSES.pause_s(self._failures, random.random())
            self._not_before = asyncio.get_running_loop().time() + pause_s
            raise self._cannot(error) from error
        self._failures, self._not_before, self.trusted = 0, 0.0, True
        self._tap = transport.tap if transport else None
        return connection

    def _cannot(self, error: BaseException) -> OperatorError:
        if isinstance(error, REFUSED) and not self.trusted:
            return OperatorError(f"{self.place} lets nobody in: {error}", "check user, password and virtual host")
        return Unreachable(f"{self.place} does not answer: {error!r}", "is RabbitMQ running there?")

    async def _discard(self) -> None:
        if self._connection is not None:
            await quietly(self._connection)
            self._connection = None


def is_cancelled() -> bool:
    """Whether somebody wants the running task to end."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def quietly(thing: Connection | Channel | AbstractChannel) -> None:
    """Close what may be broken already; nothing is waited for long. It goes on if the caller is cancelled."""

    async def closed() -> None:
        with contextlib.suppress(*BROKEN):
            async with asyncio.timeout(CLOSE_S_MAX):
                await thing.close()

    await asyncio.shield(asyncio.create_task(closed()))
