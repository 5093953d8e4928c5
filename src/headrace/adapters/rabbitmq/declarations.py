"""What exists is adopted as it is; what is missing is made, plain and durable.

A passive declaration that fails closes its channel, so each is made on a channel of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from aiormq.abc import AbstractChannel
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed

from headrace.adapters.rabbitmq.lines import Line
from headrace.core.errors import OperatorError

Declare = Callable[[AbstractChannel, bool], Coroutine[Any, Any, Any]]


async def ensure_exchange(line: Line, name: str) -> None:
    """A durable topic exchange, unless there is one of this name."""

    def declare(channel: AbstractChannel, passive: bool) -> Coroutine[Any, Any, Any]:
        return channel.exchange_declare(name, exchange_type="topic", durable=True, passive=passive)

    await _ensure(line, f"exchange {name}", declare)


async def ensure_queue(line: Line, name: str) -> None:
    """A durable classic queue without arguments, unless there is one of this name."""

    def declare(channel: AbstractChannel, passive: bool) -> Coroutine[Any, Any, Any]:
        return channel.queue_declare(name, durable=True, passive=passive)

    await _ensure(line, f"queue {name}", declare)


async def count(line: Line, queue: str) -> int | None:
    """How many messages wait in a queue; None if there is no such queue."""
    try:
        answer = await line.aside(lambda channel: channel.queue_declare(queue, passive=True), ChannelNotFoundEntity)
    except ChannelNotFoundEntity:
        return None
    return answer.message_count


async def bind(line: Line, exchange: str, queue: str, patterns: set[str], no_more: set[str]) -> None:
    """Let topics come to a queue, and others no longer."""

    async def change(channel: AbstractChannel) -> None:
        for pattern in sorted(patterns):
            await channel.queue_bind(queue, exchange, pattern)
        for pattern in sorted(no_more):
            await channel.queue_unbind(queue, exchange, pattern)

    await line.aside(change)


async def _ensure(line: Line, what: str, declare: Declare) -> None:
    if await _exists(line, declare):
        return
    try:
        await line.aside(lambda channel: declare(channel, False), ChannelPreconditionFailed)
    except ChannelPreconditionFailed as error:
        # Somebody else has made it meanwhile, in another way: that is adopted too.
        if not await _exists(line, declare):
            raise OperatorError(f"{line.place}: the {what} cannot be made: {error}") from error


async def _exists(line: Line, declare: Declare) -> bool:
    try:
        await line.aside(lambda channel: declare(channel, True), ChannelNotFoundEntity)
    except ChannelNotFoundEntity:
        return False
    return True
