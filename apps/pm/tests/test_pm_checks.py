"""What `doctor` says of tables that lack something, and that it says nothing bad of those that do not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from pm_operator_world import operator_tables, written

from headrace.commands import Check
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.operators.checks import examined_tables
from headrace_pm.operators.dictionary_import import DictionaryImport


def said(checks: list[Check]) -> dict[str, str]:
    return {check.name: f"{check.state} {check.found}" for check in checks}


async def test_the_tables_are_examined(mariadb_server: MariaServer, mariadb_database: str, tmp_path: Path) -> None:
    mine = mariadb_database.rpartition("/")[2]
    async with operator_tables(mariadb_database) as tables:
        empty = said(await examined_tables(tables, {}))
        assert empty["ftp_server"].startswith("warning has no server")
        assert empty["ne"].startswith("bad has no element")
        assert empty["extra_field_column"].startswith("bad has no row rat_type")
        importing = DictionaryImport(tables)
        await importing.apply(await importing.preview(written(tmp_path)), "test", datetime.now(UTC))
        whole = await examined_tables(tables, {"PM_FTP": "secret"})
        assert {check.state for check in whole} == {"ok"}
        assert said(whole)["dictionaries"] == "ok 2 elements, 2 counters are wanted"
        for statement in (
            "UPDATE extra_field_column SET level_id = 9",
            "INSERT INTO ftp_path VALUES (7, 7, '/x/')",
            "INSERT INTO ftp_server VALUES (2, '5GA', 'h', 21, 'u', 'hunter2'), (3, '5GA', 'h', 22, 'u', 'env:NONE')",
            "INSERT INTO ftp_server VALUES (4, '5GA', '10.0.0.1', 21, 'pm', 'env:PM_FTP')",
            "UPDATE pm_kpi SET formula = 'exec(c1)'",
            "ALTER TABLE file_processing_state DROP INDEX uk_file",
        ):
            mariadb_server.query(statement, mine)
        found = await examined_tables(tables, {"PM_FTP": "secret"})
    words = " | ".join(f"{check.state} {check.name}: {check.found}" for check in found)
    for expected in (
        "warning file_processing_state: file_processing_state has no unique key",
        "bad ftp_server: row 2: a password_ref is neither",
        "bad ftp_server: row 3: env:NONE holds no password",
        "bad ftp_server: the servers 1 and 4 are the same one, 10.0.0.1_21_pm, for 5GA",
        "warning ftp_path: server 2 has no folder",
        "warning ftp_path: row 7 is on server 7",
        "bad counter_cat: has no counter at level 9; its levels: 3, 4",
        "warning pm_kpi: rrc_success: the formula cannot be read",
    ):
        assert expected in words
    assert {check.hint for check in found if "row 3" in check.found} == {"set it here, and where services run"}
    assert "hunter2" not in words
    assert "secret" not in words
