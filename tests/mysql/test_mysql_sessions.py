"""Sessions on MariaDB: what they promise to every statement, how they are protected, and what a URL may say."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mysql_handles import handle_on, shelf_on

import headrace.tables
from headrace.adapters.mysql.options import MysqlOptions, Tls
from headrace.adapters.mysql.tables import MARKS_KEPT_S, MysqlTables, forget_marks
from headrace.core.errors import CallerError, Unreachable
from headrace.core.table_statements import Step, TableMigration, TablePart, TableStatement
from headrace.core.units import Unit
from headrace.testing.contracts.shelf import step
from headrace.testing.rig.certificates import self_signed
from headrace.testing.rig.mariadb import MariaServer

FILES = ("A.dat", "a.dat", "a.dat ", "á.dat")


@pytest.fixture
async def tables(mariadb_database: str) -> AsyncIterator[MysqlTables]:
    tables = handle_on(mariadb_database, lanes=1).tables
    yield tables
    tables.close()


async def test_every_session_is_strict_and_in_utc(tables: MysqlTables) -> None:
    asked = "SELECT @@tx_isolation, @@time_zone, @@character_set_client, @@innodb_lock_wait_timeout, @@autocommit"
    found = await tables.read(TableStatement.of("session", asked), {})
    assert found == [("READ-COMMITTED", "+00:00", "utf8mb4", 10, 1)]
    now = await tables.read(TableStatement.of("now", "SELECT NOW(6), CURRENT_TIMESTAMP"), {})
    assert all(abs((datetime.now(UTC) - each).total_seconds()) < 60 for each in now[0])
    opened = await shelf_on(tables)
    with pytest.raises(CallerError, match="Data too long"):
        await opened.run("add", article="x" * 21, amount=1)
    with pytest.raises(CallerError, match="Out of range"):
        await opened.run("add", article="x", amount=2**40)


async def test_a_file_of_this_machine_is_not_for_the_server(tables: MysqlTables) -> None:
    for text in ("LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE shelf", "SET sql_mode = ''", "DROP TABLE shelf"):
        with pytest.raises(CallerError, match="is refused"):
            await tables.apply(Unit("unit-1", (Step(TableStatement.of("bad", text), ({},)),)))


@pytest.mark.parametrize(("collation", "kept"), [("utf8mb4_nopad_bin", 4), ("utf8mb4_general_ci", 1)])
async def test_names_that_only_look_alike_are_four_where_the_column_says_so(
    tables: MysqlTables, collation: str, kept: int
) -> None:
    """The server's own collation is the twin: it takes all of them for one file."""
    part = TablePart("", f"CREATE TABLE file (name varchar(255) COLLATE {collation} PRIMARY KEY)")
    await tables.migrate("files", [TableMigration(1, "file", (part,))])
    seen = TableStatement.of("seen", "INSERT INTO file (name) VALUES (:name) ON DUPLICATE KEY UPDATE name = name")
    await tables.apply(Unit("unit-1", (Step(seen, tuple({"name": name} for name in FILES)),)))
    found = await tables.read(TableStatement.of("files", "SELECT name FROM file"), {})
    assert len(found) == kept
    assert kept == 1 or {name for (name,) in found} == set(FILES)


async def test_marks_of_units_go_when_their_time_has_passed(
    tables: MysqlTables, mariadb_server: MariaServer, mariadb_database: str
) -> None:
    opened = await shelf_on(tables)
    await opened.run("add", article="bolt", amount=1)
    age = f"UPDATE headrace_unit SET applied_at = applied_at - INTERVAL {MARKS_KEPT_S + 60} SECOND"
    mariadb_server.query(age, mariadb_database.rpartition("/")[2])
    await opened.run("add", article="nut", amount=1)
    await tables._lanes.write(forget_marks)
    count = mariadb_server.query("SELECT COUNT(*) FROM headrace_unit", mariadb_database.rpartition("/")[2])
    assert count == [(1,)]


async def test_a_unit_that_is_sent_while_the_first_is_still_open_waits_for_its_end(mariadb_database: str) -> None:
    first, second = (handle_on(mariadb_database, lanes=1).tables for _ in range(2))
    opened = await shelf_on(first)
    await opened.run("add", article="bolt", amount=9)
    unit = Unit("unit-1", (step("take", dialect="mysql", article="bolt"),))
    done = await asyncio.gather(*(tables.apply(unit) for tables in (first, second)))
    assert sorted(each.steps is None for each in done) == [False, True]
    assert await opened.one("amount", article="bolt") == (8, 1)
    first.close()
    second.close()


async def test_tables_are_opened_by_their_url(mariadb_database: str) -> None:
    async with headrace.tables.open_tables(mariadb_database, ()) as opened:
        assert opened.tables.dialect == "mysql"
        with pytest.raises(CallerError, match="an event needs a store, and mysql is none"):
            async with opened.transaction() as tx:
                tx.publish()
    async with headrace.tables.open_tables("sqlite:///:memory:", ()) as opened:
        assert opened.tables.dialect == "sqlite"


def test_a_url_says_where_and_how() -> None:
    found = MysqlOptions.of("mysql://u%40x:p%2Fw@db:3307/pm?tls=verify_ca&tls_ca=/ca.pem&answer_s=5&bulk=off&lanes=2")
    assert (found.user, found.password, found.host, found.port, found.database) == ("u@x", "p/w", "db", 3307, "pm")
    assert (found.tls, found.tls_ca, found.answer_s, found.bulk, found.lanes) == (Tls.VERIFY_CA, "/ca.pem", 5, False, 2)
    assert "p/w" not in f"{found!r}{found.where}"
    for wrong in (
        "mysql://host",
        "mysql:///pm",
        "mysql://host:port/pm",
        "mysql://host/pm?local_infile=1",
        "mysql://host/pm?bulk=maybe",
        "mysql://host/pm?lanes=0",
        "mysql://host/pm?tls=verify_ca",
        "postgres://host/pm",
    ):
        with pytest.raises(CallerError):
            MysqlOptions.of(wrong)


class TlsServer(MariaServer):
    """With a certificate that signs itself."""

    def prepare(self) -> None:
        super().prepare()
        self.certificate = self.write("server.pem", self_signed("localhost"))

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        files = {"ssl-cert": str(self.certificate), "ssl-key": str(self.certificate)}
        return super().command({**settings, **files, "require-secure-transport": "ON"})


async def test_tls_is_taken_where_it_is_wanted_and_checked_where_it_is_to_be(
    mariadb_database: str, tmp_path: Path
) -> None:
    async with MysqlTables.open(f"{mariadb_database}?tls=required") as tables:
        with pytest.raises(Unreachable, match="SSL is required"):
            await shelf_on(tables)
    wrong = tmp_path / "wrong.pem"
    wrong.write_text(self_signed("localhost"))
    with TlsServer() as server:
        own = server.certificate
        for options in ("", "?tls=required", f"?tls=verify_identity&tls_ca={own}", f"?tls=verify_ca&tls_ca={own}"):
            async with MysqlTables.open(f"{server.url}{options}") as tables:
                opened = await shelf_on(tables)
                async with opened.transaction() as tx:
                    tx.run_many("add", [{"article": f"{options[5:14]}{n}", "amount": n} for n in range(3)], expect=3)
                assert await tables._lanes.read(lambda connection: connection.takes_bulk)
        mistrusting = [(f"?tls={mode}&tls_ca={wrong}", "certificate") for mode in ("verify_ca", "verify_identity")]
        for options, told in (("?tls=disabled", "Access denied"), *mistrusting):
            async with MysqlTables.open(f"{server.url}{options}") as tables:
                with pytest.raises(Unreachable, match=told):
                    await shelf_on(tables)


class Impostor:
    """Says it is a MySQL, and wants the password as it is."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.heard = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"mysql://someone:sesame@127.0.0.1:{self._socket.getsockname()[1]}/pm?tls=disabled"

    def _serve(self) -> None:
        line, _ = self._socket.accept()
        with line:
            flags = 0x000FA28F
            greeting = b"\x0a8.0.36\0" + struct.pack("<I", 7) + b"saltsalt\0" + struct.pack("<H", flags & 0xFFFF)
            greeting += (
                struct.pack("<BHHB", 45, 2, flags >> 16, 21) + bytes(10) + b"saltsaltsalt\0caching_sha2_password\0"
            )
            line.sendall(len(greeting).to_bytes(3, "little") + b"\0" + greeting)
            self.heard += line.recv(4096)
            switch = b"\xfemysql_clear_password\0"
            line.sendall(len(switch).to_bytes(3, "little") + b"\x02" + switch)
            self.heard += line.recv(4096)

    def close(self) -> None:
        self._thread.join(10)
        self._socket.close()


async def test_a_server_that_asks_for_the_password_does_not_get_it() -> None:
    impostor = Impostor()
    async with MysqlTables.open(impostor.url) as tables:
        with pytest.raises(Unreachable, match="clear text"):
            await tables.apply(Unit("unit-1", (step("take", dialect="mysql", article="bolt"),)))
    impostor.close()
    assert b"someone" in impostor.heard
    assert b"sesame" not in impostor.heard
