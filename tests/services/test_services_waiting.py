"""What a service waits for at its start, and what it refuses at once."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from headrace.errors import HeadraceError, OperatorError, Unknown, Unreachable, UnsafeStore
from headrace.services import Stopped, patiently


@pytest.mark.parametrize("kind", [Unreachable, Unknown])
async def test_a_server_that_is_not_up_yet_is_waited_for(kind: type[HeadraceError]) -> None:
    calls: list[int] = []

    async def work() -> str:
        calls.append(1)
        if len(calls) < 2:
            raise kind("not yet")
        return "up"

    assert await patiently(work, 60, asyncio.Event()) == "up"
    with pytest.raises(kind):
        calls.clear()
        await patiently(work, 0, asyncio.Event())


@pytest.mark.parametrize("kind", [OperatorError, UnsafeStore])
async def test_a_server_that_is_set_up_wrongly_is_refused_at_once(kind: type[HeadraceError]) -> None:
    async def work() -> None:
        raise kind("it evicts")

    with pytest.raises(kind):
        await asyncio.wait_for(patiently(work, 60, asyncio.Event()), 30)


async def test_a_stop_ends_the_waiting() -> None:
    stop = asyncio.Event()

    async def work() -> None:
        stop.set()
        raise Unreachable("for ever")

    with pytest.raises(Stopped):
        await patiently(work, 60, stop)


async def test_the_same_outage_is_logged_once() -> None:
    errors = ["refused", "refused", "full", "full"]

    async def work() -> None:
        if errors:
            raise Unreachable(errors.pop(0))

    with capture_logs() as lines:
        await patiently(work, 60, asyncio.Event())
    assert [line["error"] for line in lines] == ["refused", "full"]
