"""MariaDB: what is committed stays, which numbers errors have through a proxy, and where it is not MySQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pymysql
import pytest
from mysql_connections import mysql_connection

from headrace.testing.rig.mariadb import MariaServer
from headrace.testing.rig.proxy import Proxy

NewProxy = Callable[[str], Proxy]
DEADLOCK, LOST_CONNECTION, CONNECTION_KILLED, UNKNOWN_COLLATION = 1213, 2013, 1927, 1273
COUNTED = "CREATE TABLE counted (number INT PRIMARY KEY, value INT NOT NULL) ENGINE=InnoDB"


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with mysql_connection(url) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def number_of(error: pytest.ExceptionInfo[pymysql.MySQLError]) -> int:
    return int(error.value.args[0])


def test_a_committed_row_survives_a_kill_and_an_open_one_does_not(
    mariadb_database: str, mariadb_server: MariaServer
) -> None:
    rows(mariadb_database, COUNTED)
    assert mariadb_server.query("SELECT @@innodb_flush_log_at_trx_commit, @@innodb_doublewrite") == [(1, 1)]
    with mysql_connection(mariadb_database, autocommit=False) as connection, connection.cursor() as cursor:
        for number in range(50):
            cursor.execute("INSERT INTO counted VALUES (%s, 0)", (number,))
            connection.commit()
        cursor.execute("INSERT INTO counted VALUES (1000, 0)")
        mariadb_server.kill()
    mariadb_server.start()
    assert rows(mariadb_database, "SELECT COUNT(*), MAX(number) FROM counted") == [(50, 49)]


def test_of_two_in_a_deadlock_one_is_told_1213_and_the_other_goes_on(
    mariadb_database: str, fault_proxy: NewProxy
) -> None:
    url = fault_proxy(mariadb_database).url
    rows(mariadb_database, COUNTED)
    rows(mariadb_database, "INSERT INTO counted VALUES (1, 0), (2, 0)")
    both_hold_one = threading.Barrier(2)

    def cross(first: int, second: int) -> int:
        with mysql_connection(url, autocommit=False) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE counted SET value = value + 1 WHERE number = %s", (first,))
            both_hold_one.wait()
            try:
                cursor.execute("UPDATE counted SET value = value + 1 WHERE number = %s", (second,))
            except pymysql.MySQLError as error:
                return int(error.args[0])
            connection.commit()
            return 0

    with ThreadPoolExecutor(2) as pool:
        told = pool.map(cross, (1, 2), (2, 1))
    assert sorted(told) == [0, DEADLOCK]
    assert rows(mariadb_database, "SELECT value FROM counted") == [(1,), (1,)], "the loser was rolled back whole"


@pytest.mark.parametrize(("cut", "committed"), [("cut_reply_to", 1), ("cut_before", 0)])
def test_a_commit_without_an_answer_is_a_lost_connection_whatever_became_of_it(
    mariadb_database: str, fault_proxy: NewProxy, cut: str, committed: int
) -> None:
    proxy = fault_proxy(mariadb_database)
    rows(mariadb_database, COUNTED)
    with mysql_connection(proxy.url, autocommit=False) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO counted VALUES (7, 0)")
        getattr(proxy, cut)(b"COMMIT")
        with pytest.raises(pymysql.OperationalError) as error:
            connection.commit()
    assert number_of(error) == LOST_CONNECTION
    assert proxy.cuts == 1
    # Only a new connection can tell; the lock on the row makes it wait until the old one has ended.
    assert rows(mariadb_database, "SELECT COUNT(*) FROM counted WHERE number = 7 FOR UPDATE") == [(committed,)]


def test_a_database_goes_whoever_holds_its_tables(mariadb_server: MariaServer) -> None:
    with mariadb_server.database() as url:
        rows(url, COUNTED)
        holder = mariadb_server.connect(url.rpartition("/")[2])
        holder.begin()
        holder.cursor().execute("INSERT INTO counted VALUES (1, 1)")
    with pytest.raises(pymysql.OperationalError) as error:
        holder.cursor().execute("SELECT 1")
    assert number_of(error) in (CONNECTION_KILLED, LOST_CONNECTION)
    holder.close()
    assert mariadb_server.query("SHOW DATABASES LIKE 'test%'") == []


def test_it_differs_from_mysql_as_its_description_says(mariadb_database: str, mariadb_server: MariaServer) -> None:
    with mysql_connection(mariadb_database) as connection:
        greeting = connection.get_server_info()
        assert greeting.startswith("5.5.5-10.11.")
    assert mariadb_server.query("SELECT plugin FROM mysql.user WHERE user = 'rig'") == [("mysql_native_password",)]

    rows(mariadb_database, "CREATE TABLE wide (a VARCHAR(500), b VARCHAR(400), UNIQUE KEY uk (a, b))")
    assert {row[10] for row in rows(mariadb_database, "SHOW INDEX FROM wide")} == {"HASH"}

    with pytest.raises(pymysql.OperationalError) as error:
        rows(mariadb_database, "CREATE TABLE t (a VARCHAR(9)) COLLATE utf8mb4_0900_ai_ci")
    assert number_of(error) == UNKNOWN_COLLATION
    rows(mariadb_database, "CREATE TABLE exact (a VARCHAR(9) COLLATE utf8mb4_nopad_bin, b JSON)")
    kept = '{"b": 1,  "a": 2}'
    assert rows(mariadb_database, f"INSERT INTO exact VALUES ('a', '{kept}') RETURNING b") == [(kept,)]
