"""Every guard of the ledger's scripts has a broken twin, and a sentence of the contract notices it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import fields

import pytest
import redis
import smap_ledger_twins_after
import smap_ledger_twins_before
from smap_ledger_contract import P
from smap_ledger_twins_before import Twin

from headrace.errors import OperatorError, Unreachable
from headrace.testing.twins import turns_red
from headrace_smap.ledger.redis_calls import RedisCalls, Script
from headrace_smap.ledger.redis_ledger import RedisLedger, Scripts, load_scripts

TWINS = {**smap_ledger_twins_before.TWINS, **smap_ledger_twins_after.TWINS}


def broken(twin: Twin) -> Scripts:
    """The scripts without a guard; it is an error if none of those meant has it."""
    good = load_scripts()
    bad = {each.name: getattr(good, each.name) for each in fields(Scripts)}
    for name, script in bad.items():
        if twin.only in ("", name):
            assert script.text.count(twin.guard) == 1, f"{twin.guard!r} is not in {name}"
            bad[name] = Script(script.text.replace(twin.guard, twin.instead))
    return Scripts(**bad)


@pytest.fixture
async def calls(redis_database: str) -> AsyncIterator[RedisCalls]:
    calls = RedisCalls(redis_database, 1, redis_database)
    yield calls
    await calls.close()


@pytest.mark.parametrize("bug", TWINS)
async def test_a_guard_taken_away_is_noticed(bug: str, calls: RedisCalls, redis_database: str) -> None:
    twin = TWINS[bug]
    ledger = RedisLedger(calls, broken(twin))
    with redis.Redis.from_url(redis_database, decode_responses=True) as foreign:
        named = twin.noticed_by.__code__.co_varnames[: twin.noticed_by.__code__.co_argcount]
        if "opened" in named:
            await RedisLedger(calls).open(P)
        try:
            await turns_red(twin.noticed_by, ledger=ledger, opened=ledger, foreign=foreign, **twin.given)
        except Unreachable:
            raise
        except OperatorError:
            # A script that breaks off half way is noticed as well, and by everybody.
            return
