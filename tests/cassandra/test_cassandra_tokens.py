"""Tokens rise over all grants, whoever was granted before: over clients, threads, processes and foreign clients.

Each of these tests has a planted bug that it catches: a token that is not confirmed, or a takeover that compares the
epoch alone.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lock_clients import (
    EPOCH_ALONE,
    AlwaysBoughtTokens,
    MetSession,
    UnconfirmedTokens,
    client_on,
    resource,
    session_on,
    takeover_by_epoch_alone,
)
from waiting import eventually

from headrace.adapters.cassandra.leases import CassandraLeases
from headrace.adapters.cassandra.session import CassandraSession
from headrace.adapters.cassandra.statements import CqlStatement, statements
from headrace.adapters.cassandra.tokens import Resources, Tokens
from headrace.core.leases import Leased
from headrace.testing.passage import ManualClock

HERE = Path(__file__).parent
GRANTS = 4
LIMIT_S = 120.0
OVERTAKE_S = 0.3
TRIES = 5


async def granted(leases: CassandraLeases, name: str, holder: str) -> int:
    """Acquire and let go; the token."""
    answer = await leases.acquire(name, holder, 30.0)
    assert answer.granted
    assert await leases.release(name, answer.lease.fence)
    return answer.lease.fence


async def blocks_of_two_clients(url: str, tokens: type[Tokens]) -> list[int]:
    """A has 1–100, B is granted from 101 on, then A again."""
    async with AsyncExitStack() as stack:
        name, clients = resource(), []
        for _ in range(2):
            session = await session_on(url)
            stack.push_async_callback(session.close)
            clients.append(CassandraLeases(session, tokens=tokens(session)))
        return [await granted(clients[turn % 2], name, f"client-{turn % 2}") for turn in range(4)]


async def drawn_before_and_granted_after(url: str, tokens: type[Tokens]) -> list[int]:
    """A has drawn its token and is about to write its row; B is granted and lets go; then A is granted."""
    async with AsyncExitStack() as stack:
        name, fences = resource(), list[int]()
        mine, yours = await session_on(url), await session_on(url)
        stack.push_async_callback(mine.close)
        stack.push_async_callback(yours.close)

        async def meeting() -> None:
            fences.append(await granted(CassandraLeases(yours, tokens=tokens(yours)), name, "b"))

        session: Any = MetSession(mine, "lock_insert", meeting)
        leases = CassandraLeases(session, tokens=tokens(session))
        # It has tokens from now on, so it draws one before it writes its row.
        drawn = await leases.next_seq(name)
        fences.append(await granted(leases, name, "a"))
        assert session.met
        return [drawn, *fences]


async def drawn_beside_the_grant(url: str, tokens: type[Tokens]) -> list[int]:
    """A has no tokens and is about to write its row; somebody else of A draws one; B is granted; then A is granted."""
    async with AsyncExitStack() as stack:
        name, fences = resource(), list[int]()
        mine, yours = await session_on(url), await session_on(url)
        stack.push_async_callback(mine.close)
        stack.push_async_callback(yours.close)

        async def meeting() -> None:
            fences.append(await leases.next_seq(name))
            fences.append(await granted(CassandraLeases(yours, tokens=tokens(yours)), name, "b"))

        session: Any = MetSession(mine, "lock_insert", meeting)
        leases = CassandraLeases(session, tokens=tokens(session))
        fences.append(await granted(leases, name, "a"))
        assert session.met
        return fences


async def bought_while_the_row_is_held(url: str, tokens: type[Tokens]) -> list[int]:
    """A holds the row and is about to buy its first block; another client buys one before; then A and B."""
    return await _drawn_before(url, tokens, "seq_insert", drawn_first=False)


async def drawn_while_the_row_is_held(url: str, tokens: type[Tokens]) -> list[int]:
    """A holds the row and is about to confirm; another client buys a block, as a foreign one would; then A and B."""
    return await _drawn_before(url, tokens, "seq_row", drawn_first=True)


async def _drawn_before(url: str, tokens: type[Tokens], statement: str, *, drawn_first: bool) -> list[int]:
    async with AsyncExitStack() as stack:
        name = resource()
        mine, yours = await session_on(url), await session_on(url)
        stack.push_async_callback(mine.close)
        stack.push_async_callback(yours.close)
        other = CassandraLeases(yours, tokens=tokens(yours))
        drawn = list[int]()

        async def meeting() -> None:
            drawn.append(await other.next_seq(name))

        session: Any = MetSession(mine, statement, meeting)
        leases = CassandraLeases(session, tokens=tokens(session))
        if drawn_first:
            await leases.next_seq(name)
        fences = [await granted(leases, name, "a")]
        assert session.met
        return [*drawn, *fences, await granted(other, name, "b")]


async def tasks_of_one_client(session: CassandraSession) -> list[int]:
    """A task has drawn its token and is about to write its row; another of the same client has time to overtake it."""
    name, fences = resource(), list[int]()

    async def grant(holder: str) -> None:
        # The release of one and the insert of the other may meet at the server.
        answer = await eventually(partial(free, holder), "the other has let go")
        fences.append(answer.lease.fence)
        assert await leases.release(name, answer.lease.fence)

    async def free(holder: str) -> Leased | None:
        answer = await leases.acquire(name, holder, 30.0)
        return answer if answer.granted else None

    async def meeting() -> None:
        others.append(asyncio.ensure_future(grant("b")))
        await asyncio.wait(others, timeout=OVERTAKE_S)

    others: list[asyncio.Future[None]] = []
    met: Any = MetSession(session, "lock_insert", meeting)
    leases = CassandraLeases(met)
    await grant("a")
    await asyncio.gather(*others)
    return fences


async def test_tasks_of_one_client_are_granted_rising_tokens(session: CassandraSession) -> None:
    fences = await tasks_of_one_client(session)
    assert fences == sorted(set(fences))
    assert len(fences) == 2


WALKS = [blocks_of_two_clients, drawn_before_and_granted_after]


@pytest.mark.parametrize(
    "walk", [*WALKS, drawn_beside_the_grant, drawn_while_the_row_is_held, bought_while_the_row_is_held]
)
async def test_tokens_rise_over_all_grants(lock_keyspace: str, walk: Any) -> None:
    fences = await walk(lock_keyspace, Tokens)
    assert fences == sorted(set(fences))


@pytest.mark.parametrize("walk", WALKS)
async def test_a_token_that_is_not_confirmed_is_noticed(lock_keyspace: str, walk: Any) -> None:
    fences = await walk(lock_keyspace, UnconfirmedTokens)
    assert fences != sorted(set(fences))


async def test_a_block_that_was_not_bought_for_the_grant_is_noticed(lock_keyspace: str) -> None:
    fences = await drawn_beside_the_grant(lock_keyspace, AlwaysBoughtTokens)
    assert fences != sorted(set(fences))


async def test_the_first_grant_costs_two_transactions_and_no_read(session: CassandraSession) -> None:
    async def nothing() -> None:
        return

    met: Any = MetSession(session, "", nothing)
    answer = await CassandraLeases(met).acquire(resource(), "a", 30.0)
    assert (answer.granted, answer.lease.fence, answer.lease.epoch) == (True, 1, 1)
    assert met.sent == {"lock_insert": 1, "seq_insert": 1}


async def test_a_repeat_without_tokens_left_gets_the_lock_that_it_has(lock_keyspace: str, clock: ManualClock) -> None:
    """In one millisecond, too: the row that was reported is then the very one that the repeat would write."""
    session = await session_on(lock_keyspace, block_size=1)
    leases, name = client_on(session, clock), resource()
    first = await leases.acquire(name, "a", 30.0)
    again = await leases.acquire(name, "a", 30.0)
    assert (again.granted, again.repeated, again.lease.fence) == (True, True, first.lease.fence)
    await session.close()


async def test_the_first_row_of_a_client_bears_the_epoch_of_no_earlier_row(lock_keyspace: str) -> None:
    """A foreign reader that saw an earlier row compares its epoch alone."""
    epochs = list[int]()
    name = resource()
    for client in range(3):
        session = await session_on(lock_keyspace)
        leases = client_on(session)
        lease = (await leases.acquire(name, f"client-{client}", 30.0)).lease
        epochs.append(lease.epoch)
        await leases.release(name, lease.fence)
        await session.close()
    assert epochs == sorted(set(epochs))


def book_of(url: str, directory: Path, kinds: Mapping[str, int]) -> list[tuple[str, int]]:
    """Real processes that fight for one lock; kind and token of every grant, in order."""
    book, name = directory / "book", resource()
    children = [
        subprocess.Popen(
            [sys.executable, str(HERE / "lock_holder_child.py"), kind, url, name, str(book), str(GRANTS)],
            env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for kind, count in kinds.items()
        for _ in range(count)
    ]
    for child in children:
        _, errors = child.communicate(timeout=LIMIT_S)
        assert child.returncode == 0, errors
    return [(line.split()[0], int(line.split()[1])) for line in book.read_text("ascii").splitlines()]


def test_processes_and_threads_are_granted_rising_tokens_beside_a_foreign_client(
    lock_keyspace: str, tmp_path: Path
) -> None:
    grants = book_of(lock_keyspace, tmp_path, {"ours": 2, "foreign": 1})
    assert len(grants) == (2 * 2 + 1) * GRANTS
    highest = 0
    for kind, token in grants:
        assert kind == "foreign" or token > highest, grants
        highest = max(highest, token)


def test_threads_without_confirmation_are_found_out(lock_keyspace: str, tmp_path: Path) -> None:
    for attempt in range(TRIES):
        (folder := tmp_path / str(attempt)).mkdir()
        tokens = [token for _, token in book_of(lock_keyspace, folder, {"unconfirmed": 1})]
        if tokens != sorted(tokens):
            return
        # On a busy machine one thread may have had all of its turns before the other had its first.
    raise AssertionError("nobody was granted a token below an earlier one")


# A stale reader


async def stale_takeover(url: str, known: Mapping[str, CqlStatement]) -> bool:
    """A reads an expired row of epoch 0; its holder lets go and another takes the lock, epoch 0 again; A takes over."""
    name, clock = resource(), ManualClock()
    session, other = await session_on(url, known), await session_on(url)

    def row(holder: str, token: int, end_s: float) -> dict[str, object]:
        end_ms = int((clock.wall() + end_s) * 1000)
        return {"resource_id": name, "holder": holder, "fencing_token": token, "expire_at": end_ms, "epoch": 0}

    async def meeting() -> None:
        await other.run("lock_release", {"resource_id": name, "holder": "x", "fencing_token": 1})
        await other.run("lock_insert", row("y", 2, 30.0))

    await other.run("lock_insert", row("x", 1, -1.0))
    met: Any = MetSession(session, "lock_takeover", meeting)
    answer = await client_on(met, clock).acquire(name, "a", 30.0)
    assert met.met
    await session.close()
    await other.close()
    return answer.granted


async def test_a_stale_reader_does_not_steal_a_live_lock(lock_keyspace: str) -> None:
    assert not await stale_takeover(lock_keyspace, statements())


async def test_a_takeover_by_the_epoch_alone_is_noticed(lock_keyspace: str) -> None:
    planted = takeover_by_epoch_alone()
    assert planted["lock_takeover"].text.endswith(EPOCH_ALONE)
    assert await stale_takeover(lock_keyspace, planted)


async def test_a_foreign_reader_of_an_old_row_does_not_steal_a_lock_of_ours(session: CassandraSession) -> None:
    """It compares the epoch that it saw: 0 in a foreign row, ours in a row of ours. The next row has neither."""
    name, leases = resource(), client_on(session)
    theft = "UPDATE locks SET holder = 'thief' WHERE resource_id = :resource_id IF epoch = :epoch"
    await session.prepare({"theft": CqlStatement.of("theft", theft)})
    first = (await leases.acquire(name, "a", 30.0)).lease
    await leases.release(name, first.fence)
    await leases.acquire(name, "a", 30.0)
    for epoch in (0, first.epoch):
        assert not (await session.run("theft", {"resource_id": name, "epoch": epoch})).applied


# Foreign rows


async def test_a_token_is_above_that_of_a_row_written_by_hand(session: CassandraSession, clock: ManualClock) -> None:
    name = resource()
    values = {"holder": "hand", "fencing_token": 5_000, "expire_at": 0, "epoch": None}
    await session.run("lock_insert", {"resource_id": name, **values})
    taken = await client_on(session, clock).acquire(name, "a", 30.0)
    assert (taken.granted, taken.lease.epoch) == (True, 1)
    assert taken.lease.fence > 5_000


async def test_a_row_that_lacks_every_column_is_taken_over(session: CassandraSession, clock: ManualClock) -> None:
    name = resource()
    values = {"holder": None, "fencing_token": None, "expire_at": None, "epoch": None}
    await session.run("lock_insert", {"resource_id": name, **values})
    assert (await client_on(session, clock).acquire(name, "a", 30.0)).granted


async def test_tokens_are_drawn_where_a_row_holds_no_number(session: CassandraSession, clock: ManualClock) -> None:
    """As a program by hand leaves it that names the resource alone."""
    name = resource()
    await session.define(f"INSERT INTO lock_seq (resource) VALUES ('{name}') IF NOT EXISTS")
    leases = CassandraLeases(session, clock=clock)
    assert [await granted(leases, name, "a") for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("block_size", [1, 100])
async def test_tokens_go_on_after_their_row_was_purged(lock_keyspace: str, block_size: int) -> None:
    name, session = resource(), await session_on(lock_keyspace, block_size=block_size)
    leases = client_on(session)
    drawn = [await leases.next_seq(name), await granted(leases, name, "a")]
    await session.define(f"DELETE FROM lock_seq WHERE resource = '{name}' IF EXISTS")
    drawn += [await leases.next_seq(name), await granted(leases, name, "a")]
    assert drawn == sorted(set(drawn))
    await session.close()


async def test_a_stale_block_is_left_at_once(lock_keyspace: str) -> None:
    """One more purchase and one more write; not one for every token that is left of it."""
    name, mine, yours = resource(), await session_on(lock_keyspace), await session_on(lock_keyspace)

    async def meeting() -> None:
        await client_on(yours).next_seq(name)

    met: Any = MetSession(mine, "seq_row", meeting)
    leases = client_on(met)
    await leases.next_seq(name)
    assert await granted(leases, name, "a") == 201
    assert (met.sent["lock_token"], met.sent["seq_row"]) == (1, 1)
    await mine.close()
    await yours.close()


async def test_a_grant_that_was_confirmed_too_late_is_not_reported(session: CassandraSession) -> None:
    name, clock = resource(), ManualClock()

    async def meeting() -> None:
        clock.advance(31.0)

    met: Any = MetSession(session, "seq_insert", meeting)
    late = await client_on(met, clock).acquire(name, "a", 30.0)
    assert (late.granted, late.lease.free) == (False, True)


async def test_a_row_that_arrives_after_its_release_is_not_taken_for_a_grant(session: CassandraSession) -> None:
    """An insert was sent twice; the second was granted and released, others were granted, and the first arrives."""
    name, clock = resource(), ManualClock()
    leases = client_on(session, clock)
    late = (await leases.acquire(name, "a", 30.0)).lease
    assert await leases.release(name, late.fence)
    assert await granted(client_on(session, clock), name, "b") > late.fence
    values = {"holder": "a", "fencing_token": late.fence, "expire_at": late.expire_at, "epoch": late.epoch}
    assert (await session.run("lock_insert", {"resource_id": name, **values})).applied
    assert not (await leases.acquire(name, "a", 30.0)).granted


# What a client remembers


async def test_a_resource_in_use_is_not_forgotten(session: CassandraSession) -> None:
    resources = Resources(resources_max=1)
    async with resources.use("a") as held:
        async with resources.use("b"):
            pass
        async with resources.use("a") as again:
            assert again is held
    async with resources.use("b"):
        pass
    async with resources.use("a") as forgotten:
        assert forgotten is not held
