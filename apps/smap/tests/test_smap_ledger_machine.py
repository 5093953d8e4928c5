"""Calls of ours, foreign hands, flushes and lost seconds in any order: the scripts do what the model says, a project is
crossed once, and what the truth knows can always be put back exactly."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from smap_ledger_model import Model, Shown
from test_smap_ledger_twins import TWINS, broken

from headrace_smap.ledger.redis_calls import RedisCalls
from headrace_smap.ledger.redis_ledger import RedisLedger, Scripts, keys_of
from headrace_smap.values import (
    CRAWL_OPEN,
    CRAWL_SEALED,
    CRAWLING,
    DONE,
    INITIALIZING,
    PROCESSING,
    PROCESSING_WAIT,
    PostEnd,
    Standing,
)

T = TypeVar("T")
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
P = "proj_abc"
HASH = keys_of(P)[0]
POSTS = [f"raw/{number}.json" for number in range(6)]
ends = st.dictionaries(st.sampled_from(POSTS), st.booleans(), max_size=4)
counts = st.integers(0, 7)


class LedgerMachine(RuleBasedStateMachine):
    """One project. `truth` is what a database would know of its items: nothing in it is ever lost."""

    def __init__(self, url: str, scripts: Scripts | None = None) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.calls = RedisCalls(url, 1, url)
        self.ledger = RedisLedger(self.calls, scripts)
        self.foreign = redis.Redis.from_url(url)
        self.foreign.flushdb()
        self.model = Model()
        self.synced: tuple[Model, dict[str, bytes]] = (Model(), {})
        self.truth: dict[str, bool] = {}
        self.all_ours = True

    def ask(self, call: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(call)

    def teardown(self) -> None:
        self.ask(self.calls.close())
        self.runner.close()
        self.foreign.close()

    @rule()
    def open(self) -> None:
        assert self.ask(self.ledger.open(P)) == self.model.open()

    @rule(found=counts)
    def expect(self, found: int) -> None:
        self.model.expect(found)
        self.compare(self.ask(self.ledger.expect(P, found)))

    @rule(total=st.none() | counts)
    def seal(self, total: int | None) -> None:
        crossed = self.model.seal(total)
        self.compare(self.ask(self.ledger.seal(P, total)), crossed)

    @rule(ended=ends)
    def settle(self, ended: dict[str, bool]) -> None:
        """The truth first, then the ledger, as every service does it."""
        for item, ok in ended.items():
            self.truth[item] = self.truth.get(item, False) or ok
        crossed = self.model.settle(ended)
        self.compare(self.ask(self.ledger.settle(P, [PostEnd(item, ok) for item, ok in ended.items()])), crossed)

    @rule(
        status=st.sampled_from([INITIALIZING, CRAWLING, PROCESSING_WAIT, PROCESSING]),
        total=counts,
        crawl=st.sampled_from(["", CRAWL_OPEN, CRAWL_SEALED]),
    )
    def restore(self, status: str, total: int, crawl: str) -> None:
        self.model.restore(Shown(status, total), crawl, self.truth)
        self.compare(self.ask(self.ledger.restore(P, Standing(status, total, crawl=crawl), self.known())))

    @precondition(lambda self: self.model.shown is not None)
    @rule(by=st.integers(1, 2), errors=st.integers(0, 1))
    def foreign_worker(self, by: int, errors: int) -> None:
        """HINCRBY, and DONE in the specification's way."""
        shown = self.writing()
        shown.done += by
        shown.errors += errors
        self.foreign.hincrby(HASH, "errors", errors)
        if self.foreign.hincrby(HASH, "done", by) >= shown.total > 0:
            shown.status = DONE
            self.foreign.hset(HASH, "status", DONE)

    @precondition(lambda self: self.model.shown is not None)
    @rule(total=counts, status=st.sampled_from([CRAWLING, PROCESSING_WAIT]))
    def foreign_collector(self, total: int, status: str) -> None:
        shown = self.writing()
        shown.total, shown.status = total, status
        self.foreign.hset(HASH, "total", total)
        self.foreign.hset(HASH, "status", status)

    @precondition(lambda self: self.model.shown is not None)
    @rule(status=st.sampled_from([PROCESSING, DONE]))
    def foreign_word(self, status: str) -> None:
        """A worker that writes a status whatever is going on."""
        self.writing().status = status
        self.foreign.hset(HASH, "status", status)

    @precondition(lambda self: self.model.shown is None)
    @rule(total=counts, by=st.integers(1, 2), errors=st.integers(0, 1))
    def foreign_stump(self, total: int, by: int, errors: int) -> None:
        """Workers and a collector that go on where there is no hash any more."""
        self.all_ours = False
        _, done, failed = self.model.stump or (0, 0, 0)
        self.model.stump = (total, done + by, failed + errors)
        self.foreign.hset(HASH, "total", total)
        self.foreign.hincrby(HASH, "done", by)
        self.foreign.hincrby(HASH, "errors", errors)

    @rule()
    def foreign_project_service(self) -> None:
        self.all_ours = False
        self.model.shown, self.model.stump = Shown(), None
        self.foreign.hset(HASH, mapping={"status": INITIALIZING, "total": 0, "done": 0, "errors": 0})

    @rule()
    def foreign_removal(self) -> None:
        self.all_ours = False
        self.model.shown = self.model.stump = None
        self.foreign.delete(HASH)

    @rule()
    def flush(self) -> None:
        self.model = Model()
        self.foreign.flushdb()

    @rule()
    def sync(self) -> None:
        """What is there now survives the next power cut."""
        dumps = {key: self.foreign.dump(key) for key in keys_of(P)}
        self.synced = (self.model.copy(), {key: dump for key, dump in dumps.items() if dump})

    @rule()
    def power_cut(self) -> None:
        model, dumps = self.synced
        self.model = model.copy()
        self.foreign.flushdb()
        for key, dump in dumps.items():
            self.foreign.restore(key, 0, dump)

    @precondition(lambda self: self.all_ours)
    @rule()
    def heal(self) -> None:
        """A reconciler knows all items and that nobody finds more: the account becomes exact and is finished."""
        total = max(len(self.truth), self.model.shown.total if self.is_sealed() and self.model.shown else 0)
        known = Standing(PROCESSING_WAIT, total, crawl=CRAWL_SEALED)
        self.model.restore(Shown(known.status, total), known.crawl, self.truth)
        self.compare(self.ask(self.ledger.restore(P, known, self.known())))
        crossed = self.model.settle({})
        after = self.ask(self.ledger.settle(P, []))
        self.compare(after, crossed)
        assert after is not None
        assert (after.done, after.errors) == (len(self.truth), sum(not ok for ok in self.truth.values()))
        assert (after.status == DONE) == (total == len(self.truth))

    @invariant()
    def what_is_shown_is_what_the_model_says(self) -> None:
        found = self.ask(self.ledger.tally(P))
        self.compare(found)
        if found is not None and self.all_ours:
            assert found.done == found.counted
            assert not found.sealed or found.done <= found.total
        fields = {b"status", b"total", b"done", b"errors"}
        assert set(self.foreign.hkeys(HASH)) in (set(), fields - {b"status"} if self.model.stump else fields)

    def is_sealed(self) -> bool:
        return self.model.sealed

    def writing(self) -> Shown:
        self.all_ours = False
        assert self.model.shown is not None
        return self.model.shown

    def known(self) -> list[PostEnd]:
        return [PostEnd(item, ok) for item, ok in self.truth.items()]

    def compare(self, found: Standing | None, crossed: bool = False) -> None:
        model = self.model
        if model.shown is None or found is None:
            assert model.shown is None
            assert found is None
            return
        shown = Shown(found.status, found.total, found.done, found.errors)
        assert shown == model.shown
        assert (found.counted, found.failed) == (len(model.items), model.failed)
        assert (found.crossed, found.ours) == (crossed, model.ours)
        assert (found.crawl, found.whole) == (model.crawl, True)


def explore(url: str, examples: int, scripts: Scripts | None = None) -> None:
    run_state_machine_as_test(
        lambda: LedgerMachine(url, scripts),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            database=None,
            derandomize=True,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink] if scripts is None else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_scripts_do_what_the_model_says(redis_database: str) -> None:
    explore(redis_database, 30 * TIMES)


@pytest.mark.parametrize("bug", ["done is overwritten", "an old truth lowers the total"])
def test_the_model_notices_a_guard_taken_away(redis_database: str, bug: str) -> None:
    with pytest.raises(AssertionError):
        explore(redis_database, 100, broken(TWINS[bug]))
