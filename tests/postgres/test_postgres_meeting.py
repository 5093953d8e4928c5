"""Transactions that meet: each test holds a lock until the others wait for it, and lets them go at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from waiting import PATIENCE_S, eventually

from headrace.adapters.postgres.lanes import Owner
from headrace.adapters.postgres.store import PostgresStore
from headrace.core.claims import Claim, Settlement, Want
from headrace.core.jobs import Submission
from headrace.core.recount import recount
from headrace.core.tally import JobState
from headrace.testing.contracts.bench import BenchFlow, barrier, flow, parcel, work

JOIN = flow(work("a", "c"), work("b", "c"), work("c"), barrier("end", "c"))
PAIR = flow(work("a", "b"), work("b"))
LAST_LOOK = "EXIT WHEN locked = (SELECT count(*) FROM headrace.chunk_state s WHERE s.job = job_id AND s.open);"
QUEUE = """WITH RECURSIVE behind (pid, place) AS (
    SELECT %s::integer, 0 UNION SELECT a.pid, b.place + 1 FROM behind b, pg_stat_activity a
     WHERE a.datname = current_database() AND b.pid = ANY (pg_blocking_pids(a.pid)))
    SELECT max(place) FROM behind"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
WAIT_S = 20.0


class Gatekeeper:
    """Holds one row, and knows how many wait for a lock."""

    def __init__(self, url: str) -> None:
        self._holder = psycopg.connect(url)
        self._watcher = psycopg.connect(url, autocommit=True)

    def hold_stage(self, job: str, position: int) -> None:
        sql = "SELECT 1 FROM headrace.stage WHERE job = %s AND position = %s FOR UPDATE"
        self._holder.execute(sql, (job, position))

    def hold_chunks(self, job: str) -> None:
        self._holder.execute("SELECT 1 FROM headrace.chunk_state WHERE job = %s FOR UPDATE", (job,))

    def hold_chunk(self, job: str, stage: int) -> None:
        """The oldest one of a stage."""
        sql = """SELECT 1 FROM headrace.chunk_state WHERE job = %s AND position = %s
                  ORDER BY id LIMIT 1 FOR UPDATE"""
        self._holder.execute(sql, (job, stage))

    async def waiting(self, count: int) -> None:
        await self._sees((count,), WAITING)

    async def queue_of(self, length: int) -> None:
        """Until somebody waits for one who waits for this holder, or so on."""
        await self._sees((length,), QUEUE, self._holder.info.backend_pid)

    async def _sees(self, wanted: tuple[int], statement: str, *values: int) -> None:
        def found() -> bool:
            return self._watcher.execute(statement.encode(), values or None).fetchone() == wanted

        await eventually(found, f"{wanted[0]} wait for a lock", WAIT_S, otherwise=TimeoutError)

    def let_go(self) -> None:
        self._holder.commit()

    def close(self) -> None:
        self._holder.close()
        self._watcher.close()


@pytest.fixture
def gatekeeper(postgres_url: str) -> Iterator[Gatekeeper]:
    gatekeeper = Gatekeeper(postgres_url)
    yield gatekeeper
    gatekeeper.close()


@pytest.fixture
def second_gatekeeper(postgres_url: str) -> Iterator[Gatekeeper]:
    gatekeeper = Gatekeeper(postgres_url)
    yield gatekeeper
    gatekeeper.close()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[PostgresStore]:
    other = await PostgresStore.open(postgres_url)
    yield other
    await other.close()


def _break(url: str, function: str, guard: str, without: str) -> None:
    """Take a guard out of a function of the account, in this test's own database."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT pg_get_functiondef(%s::regproc)", (f"headrace.{function}",)).fetchone()
        assert found is not None
        assert guard in found[0]
        connection.execute(found[0].replace(guard, without).encode())


async def _claimed(store: PostgresStore, declared: BenchFlow, stage: str) -> Claim:
    (claim,) = (await store.claim("w", [Want(declared.name, stage, 2, 2)], 60.0)).claims
    return claim


async def test_two_feeders_that_close_at_the_same_moment_seal_their_stage_once(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    await store.submit(Submission("j", JOIN.name, JOIN.graph, (parcel("a", 2), parcel("b", 2))))
    claims = [await _claimed(store, JOIN, stage) for stage in ("a", "b")]
    gatekeeper.hold_stage("j", JOIN.graph.position("c"))
    settles = [
        asyncio.create_task(handle.settle([Settlement(claim.fence, 1, done=0b11)]))
        for handle, claim in zip((store, other), claims, strict=True)
    ]
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    await asyncio.gather(*settles)
    view = await store.job("j")
    assert view.stages["c"].closed
    assert view.stages["end"].waiting == 1
    assert recount(await store.audit("j")) == []


async def test_a_seal_derived_by_reading_the_feeders_would_be_missed(
    postgres_url: str, store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    derived = """(SELECT count(*) FROM headrace.stage f WHERE f.job = s.job AND f.generation = s.generation
                     AND s.position = ANY (f.arrows) AND f.closed_at IS NULL)"""
    _break(postgres_url, "advance", "s.feeders_open - less", derived)
    with pytest.raises(AssertionError):
        await test_two_feeders_that_close_at_the_same_moment_seal_their_stage_once(store, other, gatekeeper)


async def test_two_last_stages_that_close_at_the_same_moment_cross_the_line_once(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    declared = flow(work("a"), work("b"))
    await store.submit(Submission("j", declared.name, declared.graph, (parcel("a", 2), parcel("b", 2))))
    claims = [await _claimed(store, declared, stage) for stage in ("a", "b")]
    settles = []
    for position, (handle, claim) in enumerate(zip((store, other), claims, strict=True)):
        gatekeeper.hold_stage("j", position)
        settles.append(asyncio.create_task(handle.settle([Settlement(claim.fence, 1, done=0b11)])))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    await asyncio.gather(*settles)
    assert (await store.job("j")).state is JobState.FINISHED
    assert len(await store.finishes("j")) == 1
    assert recount(await store.audit("j")) == []


async def test_a_cancel_that_waits_for_a_settlement_cancels_what_it_sent(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    await store.submit(Submission("j", PAIR.name, PAIR.graph, (parcel("a", 2), parcel("a", 2))))
    first, _ = [await _claimed(store, PAIR, "a") for _ in range(2)]
    gatekeeper.hold_stage("j", PAIR.graph.position("a"))
    settle = asyncio.create_task(store.settle([Settlement(first.fence, 1, done=0b11, sends=(parcel("b", 5),))]))
    await gatekeeper.waiting(1)
    cancel = asyncio.create_task(other.cancel("j"))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    ((answer,), cancelled) = await asyncio.gather(settle, cancel)
    assert (answer.accepted, cancelled) == (True, True)
    view = await store.job("j")
    assert (view.stages["b"].cancelled, view.stages["b"].waiting, view.state) == (5, 0, JobState.OPEN)
    assert recount(await store.audit("j")) == []


async def test_a_cancel_that_looks_once_would_miss_what_was_sent(
    postgres_url: str, store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    _break(postgres_url, "cancel", "PERFORM headrace.lock_open(job_id);", "")
    with pytest.raises(AssertionError):
        await test_a_cancel_that_waits_for_a_settlement_cancels_what_it_sent(store, other, gatekeeper)


async def test_a_cancel_sees_what_is_sent_while_it_waits_and_sent_on_from_there(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper, second_gatekeeper: Gatekeeper
) -> None:
    declared = flow(work("a", "b"), work("b", "c"), work("c"))
    await store.submit(Submission("j", declared.name, declared.graph, (parcel("a", 2), parcel("a", 2))))
    _, later = [await _claimed(store, declared, "a") for _ in range(2)]
    gatekeeper.hold_chunk("j", 0)
    cancel = asyncio.create_task(other.cancel("j"))
    await gatekeeper.waiting(1)
    await store.settle([Settlement(later.fence, 1, done=0b11, sends=(parcel("b", 2),))])
    sent = await _claimed(store, declared, "b")
    second_gatekeeper.hold_stage("j", 1)
    settle = asyncio.create_task(store.settle([Settlement(sent.fence, 1, done=0b11, sends=(parcel("c", 5),))]))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    # The cancel waits for the settlement now, and that one for the gatekeeper.
    await second_gatekeeper.queue_of(2)
    second_gatekeeper.let_go()
    assert (await cancel, (await settle)[0].accepted) == (True, True)
    view = await store.job("j")
    assert (view.stages["c"].cancelled, view.stages["c"].waiting) == (5, 0)
    assert recount(await store.audit("j")) == []


async def test_a_cancel_without_a_last_look_would_miss_what_was_sent_on(
    postgres_url: str,
    store: PostgresStore,
    other: PostgresStore,
    gatekeeper: Gatekeeper,
    second_gatekeeper: Gatekeeper,
) -> None:
    _break(postgres_url, "lock_open", LAST_LOOK, "EXIT;")
    with pytest.raises(AssertionError):
        await test_a_cancel_sees_what_is_sent_while_it_waits_and_sent_on_from_there(
            store, other, gatekeeper, second_gatekeeper
        )


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
async def test_a_verb_that_waits_for_the_last_chunk_reaches_what_it_sent(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper, verb: str
) -> None:
    await store.submit(Submission("j", PAIR.name, PAIR.graph, (parcel("a", 2),)))
    claim = await _claimed(store, PAIR, "a")
    if verb == "resume":
        await store.pause("j")
    gatekeeper.hold_stage("j", PAIR.graph.position("a"))
    settle = asyncio.create_task(store.settle([Settlement(claim.fence, 1, done=0b11, sends=(parcel("b", 5),))]))
    await gatekeeper.waiting(1)
    operated = asyncio.create_task(getattr(other, verb)("j"))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    ((answer,), changed) = await asyncio.gather(settle, operated)
    assert (answer.accepted, changed) == (True, True)
    granted = sum(c.count for c in (await store.claim("w", [Want(PAIR.name, "b", 9, 9)], 60.0)).claims)
    view = await store.job("j")
    assert (granted, view.paused) == (5 if verb == "resume" else 0, verb == "pause")
    assert view.stages["b"].cancelled == (5 if verb == "cancel" else 0)
    assert recount(await store.audit("j")) == []


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
async def test_a_verb_that_waits_for_the_last_chunk_reaches_the_barrier_it_opened(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper, verb: str
) -> None:
    declared = flow(work("a"), barrier("end", "a"))
    await store.submit(Submission("j", declared.name, declared.graph, (parcel("a", 2),)))
    claim = await _claimed(store, declared, "a")
    if verb == "resume":
        await store.pause("j")
    gatekeeper.hold_stage("j", declared.graph.position("a"))
    settle = asyncio.create_task(store.settle([Settlement(claim.fence, 1, done=0b11)]))
    await gatekeeper.waiting(1)
    operated = asyncio.create_task(getattr(other, verb)("j"))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    assert await operated
    await settle
    granted = (await store.claim("w", [Want(declared.name, "end", 9, 9)], 60.0)).claims
    assert len(granted) == (verb == "resume")
    assert ((await store.job("j")).state is JobState.CANCELLED) == (verb == "cancel")
    assert recount(await store.audit("j")) == []


async def test_a_settlement_that_waits_for_a_cancel_sends_cancelled_items(
    store: PostgresStore, other: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    await store.submit(Submission("j", PAIR.name, PAIR.graph, (parcel("a", 2), parcel("a", 3))))
    claim = await _claimed(store, PAIR, "a")
    gatekeeper.hold_stage("j", PAIR.graph.position("a"))
    cancel = asyncio.create_task(other.cancel("j"))
    await gatekeeper.waiting(1)
    settle = asyncio.create_task(store.settle([Settlement(claim.fence, 1, done=0b11, sends=(parcel("b", 5),))]))
    await gatekeeper.waiting(2)
    gatekeeper.let_go()
    (cancelled, (answer,)) = await asyncio.gather(cancel, settle)
    assert (answer.accepted, cancelled) == (True, True)
    view = await store.job("j")
    assert (view.stages["b"].cancelled, view.state) == (5, JobState.CANCELLED)
    assert recount(await store.audit("j")) == []


async def test_a_claim_waits_for_the_only_chunk_while_others_settle_in_it(
    store: PostgresStore, gatekeeper: Gatekeeper
) -> None:
    await store.submit(Submission("j", PAIR.name, PAIR.graph, (parcel("a", 4),)))
    gatekeeper.hold_chunks("j")
    claim = asyncio.create_task(_claimed(store, PAIR, "a"))
    await gatekeeper.waiting(1)
    gatekeeper.let_go()
    assert (await claim).count == 2


async def test_a_claim_passes_over_a_chunk_that_others_work_on(store: PostgresStore, gatekeeper: Gatekeeper) -> None:
    for job in ("busy", "free"):
        await store.submit(Submission(job, PAIR.name, PAIR.graph, (parcel("a", 4),)))
    gatekeeper.hold_chunks("busy")
    assert [(await _claimed(store, PAIR, "a")).job for _ in range(2)] == ["free", "free"]
    gatekeeper.let_go()


async def test_a_transaction_that_loses_a_deadlock_is_run_again_whole(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE seat (id int PRIMARY KEY, taken int NOT NULL DEFAULT 0)")
        connection.execute("INSERT INTO seat VALUES (1), (2)")
    owners = [Owner(postgres_url, lambda _: None) for _ in range(2)]
    tries, both_have_one = [0, 0], threading.Barrier(2)

    def take(number: int, order: tuple[int, int]) -> None:
        def work(connection: psycopg.Connection[tuple[object, ...]]) -> None:
            tries[number] += 1
            with connection.transaction():
                for seat in order:
                    connection.execute("UPDATE seat SET taken = taken + 1 WHERE id = %s", (seat,))
                    if tries[number] == 1 and seat == order[0]:
                        both_have_one.wait(PATIENCE_S)

        owners[number].run(work, write=True)

    await asyncio.gather(asyncio.to_thread(take, 0, (1, 2)), asyncio.to_thread(take, 1, (2, 1)))
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT taken FROM seat").fetchall() == [(2,), (2,)]
    assert sum(tries) > 2
    for owner in owners:
        owner.close()
