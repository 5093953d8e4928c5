"""The sink of chaos: what it refuses, what it leaves alone, and what its journal says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from waiting import eventually

from headrace.errors import ClaimLost
from headrace.http import Options, application, serving
from headrace_scheduler.chaos.bank import Bank, open_bank
from headrace_scheduler.chaos.bank_routes import PATH, bank_routes
from headrace_scheduler.handlers.running_job import RunningJob


async def unreported(progress: Mapping[str, object]) -> None:
    """Nobody asks."""


def run_of(token: int) -> RunningJob:
    return RunningJob("a-job", {}, "job:a-job", token, 1, unreported)


class SlowCaller:
    """One that is still there, as the bank learns when it is told: until then the effect of its run waits."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def gone(self) -> bool:
        await self.told.wait()
        return False


@pytest.fixture
async def bank(postgres_database: str) -> AsyncIterator[Bank]:
    async with open_bank({"ORDERS_PG_DSN": postgres_database}) as opened:
        yield opened


async def test_the_effect_of_a_run_comes_late_and_is_refused(bank: Bank) -> None:
    caller = SlowCaller()
    first = asyncio.ensure_future(bank.pay(run_of(1), 0.0, 0, caller.gone))
    await eventually(bank.journal, "the first run has begun")
    assert await bank.pay(run_of(2), 0.0, 0)
    caller.told.set()
    with pytest.raises(ClaimLost):
        await first
    assert await bank.effects() == [("a-job", 2)]
    assert [(entry.token, entry.act, entry.accepted) for entry in await bank.journal()] == [
        (1, "begin", True),
        (2, "begin", True),
        (2, "effect", True),
        (1, "effect", False),
    ]


async def test_a_later_run_finds_the_effect_and_leaves_it_alone(bank: Bank) -> None:
    assert await bank.pay(run_of(1), 0.0, 0)
    assert await bank.pay(run_of(2), 0.0, 0)
    assert await bank.effects() == [("a-job", 1)]


async def test_the_first_runs_fail_as_planned(bank: Bank) -> None:
    assert [await bank.pay(run_of(token), 0.0, 2) for token in (1, 2, 3)] == [False, False, True]
    assert await bank.effects() == [("a-job", 3)]


async def called(bank: Bank, token: int, seconds: float) -> None:
    """By a caller that does not wait for the answer."""
    headers = {"Fencing-Token": str(token), "Fencing-Resource": "job:a-job", "Idempotency-Key": "a-job"}
    async with (
        serving(application(Options("bank"), [bank_routes(bank)])) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False) as caller,
    ):
        with pytest.raises(httpx.ReadTimeout):
            await caller.put(f"{PATH}?seconds={seconds}", headers=headers, timeout=httpx.Timeout(60.0, read=0.5))


async def test_the_effect_of_a_caller_that_is_gone_comes_after_the_next_run_has_begun(bank: Bank) -> None:
    await called(bank, 1, 2.0)
    assert await bank.effects() == []
    assert await bank.pay(run_of(2), 0.0, 0)
    await bank.settled()
    assert await bank.effects() == [("a-job", 2)]
    assert [(entry.token, entry.act) for entry in await bank.journal() if not entry.accepted] == [(1, "effect")]
    # The next one that is gone does not wait: its effect is there when the run after it begins.
    await called(bank, 3, 2.0)
    await bank.settled()
    assert (await bank.journal())[-1].accepted
