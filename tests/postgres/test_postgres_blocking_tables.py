"""Tables on a connection that blocks keep the contract on PostgreSQL, also where the connection breaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import psycopg
import pytest

from headrace.adapters.postgres.blocking_tables import PostgresBlockingTables
from headrace.core.errors import CallerError, OperatorError, Unknown, Unreachable
from headrace.ports.blocking_tables import BlockingTables
from headrace.testing.contracts import BlockingTablesContract
from headrace.testing.contracts.blocking_tables import HANDLES, HINT, PARTS, statements_of
from headrace.testing.rig.postgres import PostgresServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.twins import turns_red

BOLT = {"article": "bolt", "amount": 2}


def opened(url: str, kind: type[PostgresBlockingTables] = PostgresBlockingTables) -> PostgresBlockingTables:
    return kind(url, statements_of("postgres"), HINT)


@pytest.fixture
def empty_url(postgres: PostgresServer) -> Iterator[str]:
    with postgres.database() as url:
        yield url


@pytest.fixture
def handles(empty_url: str) -> Iterator[Sequence[BlockingTables]]:
    handles = [opened(empty_url) for _ in range(HANDLES)]
    yield handles
    for each in handles:
        each.close()


class TestPostgresBlockingTables(BlockingTablesContract):
    """The fixture of the file is the contract's."""


class WithoutTransactions(PostgresBlockingTables):
    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield


TWINS: dict[type[PostgresBlockingTables], Callable[..., None]] = {
    WithoutTransactions: BlockingTablesContract.test_a_transaction_that_raises_leaves_nothing,
}


@pytest.mark.parametrize("kind", TWINS)
async def test_a_broken_twin_is_noticed(kind: type[PostgresBlockingTables], empty_url: str) -> None:
    twin = opened(empty_url, kind)
    twin.make(PARTS)
    await turns_red(TWINS[kind], tables=twin)
    twin.close()


@pytest.fixture
def line(empty_url: str) -> Iterator[Proxy]:
    with Proxy(empty_url) as proxy:
        yield proxy


@pytest.fixture
def far(line: Proxy) -> Iterator[PostgresBlockingTables]:
    """Tables over a line that will be cut."""
    tables = opened(line.url)
    tables.make(PARTS)
    yield tables
    tables.close()


def put(tables: BlockingTables) -> None:
    with tables.transaction():
        tables.rows("add", BOLT)


def test_a_transaction_whose_commit_is_not_answered_is_asked_for(
    far: PostgresBlockingTables, line: Proxy, handles: Sequence[BlockingTables]
) -> None:
    line.cut_reply_to(b"COMMIT")
    put(far)
    assert line.cuts == 1
    assert handles[0].rows("shelf") == [("bolt", 2)]


def test_a_transaction_whose_commit_did_not_arrive_has_done_nothing(
    far: PostgresBlockingTables, line: Proxy, handles: Sequence[BlockingTables]
) -> None:
    line.cut_before(b"COMMIT")
    with pytest.raises(Unreachable):
        put(far)
    assert line.cuts == 1
    assert handles[0].rows("shelf") == []
    put(far)


class Impatient(PostgresBlockingTables):
    outcome_s_max = 0.2


def test_a_commit_that_cannot_be_asked_for_is_unknown(far: PostgresBlockingTables, line: Proxy) -> None:
    tables = opened(line.url, Impatient)
    tables.rows("shelf")
    line.cut_reply_to(b"COMMIT")
    line.refuse()
    with pytest.raises(Unknown, match="cannot be asked") as told:
        put(tables)
    assert told.value.hint == "look before you do it again"
    tables.close()


class Restarting(PostgresBlockingTables):
    """Its server went away with the first connection, and takes none of the next two."""

    connections = 0

    def connected(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        self.connections += 1
        if self.connections in (2, 3):
            raise Unreachable("the database system is starting up", "")


def test_a_server_that_starts_again_is_asked_when_it_answers(
    far: PostgresBlockingTables, line: Proxy, handles: Sequence[BlockingTables]
) -> None:
    tables = opened(line.url, Restarting)
    line.cut_reply_to(b"COMMIT")
    put(tables)
    assert (line.cuts, tables.connections) == (1, 4)
    assert handles[0].rows("shelf") == [("bolt", 2)]
    tables.close()


class Hopeful(PostgresBlockingTables):
    def _has_committed(self, mark: str) -> bool:
        return True


class Fearful(PostgresBlockingTables):
    def _has_committed(self, mark: str) -> bool:
        return False


def test_to_guess_what_became_of_a_commit_is_noticed(
    far: PostgresBlockingTables, line: Proxy, handles: Sequence[BlockingTables]
) -> None:
    hopeful, fearful = opened(line.url, Hopeful), opened(line.url, Fearful)
    with pytest.raises(pytest.fail.Exception):
        test_a_transaction_whose_commit_did_not_arrive_has_done_nothing(hopeful, line, handles)
    with pytest.raises(Unreachable):
        test_a_transaction_whose_commit_is_not_answered_is_asked_for(fearful, line, handles)
    hopeful.close()
    fearful.close()


def test_a_lost_answer_leaves_a_write_unknown_and_a_read_unanswered(far: PostgresBlockingTables, line: Proxy) -> None:
    line.cut_reply_to(b"INSERT INTO shelf")
    with pytest.raises(Unknown):
        far.rows("add", BOLT)
    line.cut_reply_to(b"SELECT article, amount")
    with pytest.raises(Unreachable):
        far.rows("shelf")
    line.cut_reply_to(b"UPDATE shelf")
    with pytest.raises(Unreachable), far.transaction():
        far.rows("take", {"article": "bolt"})
    assert far.rows("shelf") == [("bolt", 2)]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_transaction_that_lost_its_line_is_not_carried_on_by_another(
    far: PostgresBlockingTables, line: Proxy, handles: Sequence[BlockingTables], goes_on: bool
) -> None:
    """The error may be caught inside of the block, by a program that can do without that statement."""
    line.cut_before(b"UPDATE shelf")
    with pytest.raises(Unreachable, match="transaction"), far.transaction():
        far.rows("add", {"article": "nut", "amount": 1})
        with suppress(Unreachable):
            far.rows("take", {"article": "nut"})
        if goes_on:
            put(far)
    assert line.cuts == 1
    assert handles[0].rows("shelf") == []
    put(far)


class Reluctant(PostgresBlockingTables):
    """The first connection is none that it can use."""

    reluctance = 1

    def connected(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        if self.reluctance:
            self.reluctance -= 1
            raise CallerError("not this one")


def test_a_connection_that_could_not_be_prepared_is_not_used(empty_url: str) -> None:
    tables = opened(empty_url, Reluctant)
    with pytest.raises(CallerError, match="not this one"):
        tables.make(PARTS)
    assert not tables.is_open
    tables.make(PARTS)
    tables.close()


def test_a_server_that_takes_no_writes_is_the_operators_fault(empty_url: str) -> None:
    standby = opened(f"{empty_url}?options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(OperatorError, match="read-only"):
        standby.make(PARTS)
    standby.close()


def test_libpqs_own_variables_say_where_and_how(empty_url: str) -> None:
    given = psycopg.conninfo.conninfo_to_dict(empty_url)
    names = {"PGHOST": given["host"], "PGPORT": given["port"], "PGUSER": given["user"], "PGDATABASE": given["dbname"]}
    variables = {**names, "PGOPTIONS": "-csearch_path=elsewhere", "PGAPPNAME": "mine", "PGCONNECT_TIMEOUT": "7"}
    program = """
from headrace.adapters.postgres.blocking_tables import PostgresBlockingTables
from headrace.adapters.postgres.connections import connect

apart = PostgresBlockingTables("", {}).connection()
assert "connect_timeout=7" in apart.info.dsn, apart.info.dsn
for connection in (apart, connect("")):
    query = "SELECT current_setting('search_path'), current_setting('application_name'), current_setting('timezone')"
    print(*connection.execute(query).fetchone())
    connection.close()
"""
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("elsewhere mine UTC\n" * 2, "")
