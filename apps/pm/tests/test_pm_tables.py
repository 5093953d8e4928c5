"""The tables of pm beside foreign ones: the contract's columns, names that look alike, a table that others made."""

from __future__ import annotations

from pathlib import Path

import test_pm_moves as moves
import test_pm_register as revisions
import test_pm_resets as resets
from pm_file_world import maria_world

from headrace.tables import OpenTables, open_tables
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.ftp.names import bytes_of_name, text_of_name
from headrace_pm.tables import PM_TABLES
from headrace_pm.tables.adoption import examined

# As a foreign tool makes it, which knows only the names, types and keys of the contract.
FOREIGN = Path(__file__).with_name("foreign_files.sql").read_text("utf-8")
NAMES = (b"A.dat", b"a.dat", b"a.dat ", "á.dat".encode(), b"a\xff.dat", b"a%FF.dat", b"a%25FF.dat", b"100%.dat")
REGISTER = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state)"
    " VALUES ('5GA', 'h_21_u', '/a/', '{}', 'PENDING') ON DUPLICATE KEY UPDATE id = id"
)
TABLES = {
    "counter_cat",
    "extra_field_column",
    "file_processing_state",
    "ftp_path",
    "ftp_server",
    "headrace_table_migration",
    "headrace_unit",
    "ne",
    "node_function",
    "pm_counter_data",
    "pm_file_claim",
    "pm_file_revision",
    "pm_file_sink",
    "pm_purged",
}


async def test_init_makes_all_tables_and_is_repeated_beside_foreign_ones(
    mariadb_server: MariaServer, mariadb_database: str
) -> None:
    database = mariadb_database.rpartition("/")[2]
    mariadb_server.query("CREATE TABLE ne (id INT PRIMARY KEY, name VARCHAR(50), vendor VARCHAR(9))", database)
    mariadb_server.query("INSERT INTO ne VALUES (1, 'gnb-1', 'x')", database)
    for _ in range(2):
        async with open_tables(mariadb_database, PM_TABLES) as tables:
            assert await examined(tables) == []
    assert {name for (name,) in mariadb_server.query("SHOW TABLES", database)} == TABLES
    assert mariadb_server.query("SELECT * FROM ne", database) == [(1, "gnb-1", "x")]
    kinds = mariadb_server.query("SHOW INDEX FROM file_processing_state WHERE Key_name = 'uk_file'", database)
    assert {row[10] for row in kinds} == {"BTREE"}
    assert len(mariadb_server.query("SHOW COLUMNS FROM file_processing_state", database)) == 21
    for name in NAMES:
        mariadb_server.query(REGISTER.format(text_of_name(name)), database)
    found = {name for (name,) in mariadb_server.query("SELECT file_name FROM file_processing_state", database)}
    assert {bytes_of_name(name) for name in found} == set(NAMES)


async def test_the_embedded_tables_are_the_same(tmp_path: Path) -> None:
    """Statements have the same names in both dialects, so Python is one."""
    for _ in range(2):
        async with open_tables(f"sqlite:///{tmp_path / 'pm.db'}", PM_TABLES) as tables:
            assert await examined(tables) == []
    assert PM_TABLES.named("sqlite").keys() == PM_TABLES.named("mysql").keys()
    numbers = [[each.number for each in PM_TABLES.migrations(dialect)] for dialect in ("sqlite", "mysql")]
    assert numbers[0] == numbers[1]


async def test_a_table_that_others_made_is_adopted_and_its_weakness_named(
    mariadb_server: MariaServer, mariadb_database: str
) -> None:
    database = mariadb_database.rpartition("/")[2]
    mariadb_server.query(FOREIGN, database)
    async with open_tables(mariadb_database, PM_TABLES) as tables:
        collation, key = await examined(tables)
        assert "compares names by utf8mb4_general_ci" in collation
        assert "uk_file of file_processing_state is a hash" in key
        mariadb_server.query(key.partition(": ")[2], database)
        assert await examined(tables) == [collation], "the cure that it names is one"
        await without_a_column(tables, mariadb_server, database)


async def test_times_and_states_of_others_that_keep_files_waiting_are_named(
    mariadb_server: MariaServer, mariadb_database: str
) -> None:
    database = mariadb_database.rpartition("/")[2]
    async with open_tables(mariadb_database, PM_TABLES) as tables:
        row = "('5GA', 'h_21_u', '/x/', 'a.dat', 'MYSQL_DONE')"
        columns = "system_type, ftp_server_key, ftp_path, file_name, state"
        mariadb_server.query(f"INSERT INTO file_processing_state ({columns}) VALUES {row}", database)
        mariadb_server.query("SET GLOBAL time_zone = '+07:00'")
        try:
            zone, state = await examined(tables)
        finally:
            mariadb_server.query("SET GLOBAL time_zone = '+00:00'")
    assert "+420 minutes off UTC" in zone
    assert state.endswith("states that nobody works on: MYSQL_DONE")


async def test_the_account_is_kept_in_a_table_that_others_made(
    mariadb_server: MariaServer, mariadb_database: str
) -> None:
    """Its texts compare otherwise than ours, and its unique key is a hash."""
    async with maria_world(mariadb_server, mariadb_database, FOREIGN) as world:
        for test in (
            revisions.test_new_names_have_their_rows_once_whoever_lists_them,
            revisions.test_what_was_read_is_finished_before_its_name_begins_anew,
            revisions.test_the_same_content_again_is_not_written_again,
            moves.test_a_file_of_both_sinks_is_moved_once,
            moves.test_a_file_that_others_left_behind_comes_back_or_ends,
            moves.test_errors_that_may_heal_come_back_after_a_pause,
            resets.test_what_a_reset_asks_for_is_done_once,
            resets.test_what_is_done_again_is_shown_first_and_reset_for_the_sinks_it_is_for,
            resets.test_the_table_in_figures,
        ):
            world.clear()
            await test(world)


async def without_a_column(tables: OpenTables, server: MariaServer, database: str) -> None:
    server.query("ALTER TABLE file_processing_state DROP COLUMN max_retry, DROP INDEX uk_file", database)
    found = await examined(tables)
    assert found[0] == "file_processing_state has no column max_retry"
    assert found[-1] == "file_processing_state has no unique key uk_file: a file may be there twice"
