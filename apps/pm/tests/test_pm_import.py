"""Dictionaries from CSV files: what changes is shown, then written; nothing else is touched, and nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pm_operator_world import FILES, operator_tables, written

from headrace.errors import CallerError, Conflict, NotFound
from headrace.tables import OpenTables
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.operators.dictionary_import import DictionaryImport, TableChange
from headrace_pm.work.network_tables import Dictionaries

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Counts = dict[str, tuple[int, int, int]]


def counts(changes: tuple[TableChange, ...]) -> Counts:
    return {each.table.name: (len(each.added), len(each.changed), len(each.removed)) for each in changes}


async def imported(tables: OpenTables, folder: Path, prune: bool = False) -> Counts:
    importing = DictionaryImport(tables)
    changes = await importing.preview(folder, prune)
    await importing.apply(changes, str(folder), NOW)
    assert not any(each.is_change for each in await importing.preview(folder, prune)), "the same import again"
    return counts(changes)


async def test_an_import_adds_changes_and_prunes_and_tells_what(operator_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "dictionaries"
    async with operator_tables(operator_url) as tables:
        first = await imported(tables, written(folder))
        assert first == {
            "ftp_server": (1, 0, 0),
            "ftp_path": (2, 0, 0),
            "ne": (2, 0, 0),
            "counter_cat": (3, 0, 0),
            "extra_field_column": (1, 0, 0),
            "node_function": (1, 0, 0),
            "pm_kpi": (1, 0, 0),
        }
        # Names go round between elements, one is new; a file that is not there says nothing of its table.
        turned = {"ne": "name,id\ngnb-2,1\ngnb-3,2\ngnb-1,3\n", "ftp_path": "id,server_id,path\n1,1,/Access2/\n"}
        assert await imported(tables, written(folder, turned)) == {"ftp_path": (0, 1, 0), "ne": (1, 2, 0)}
        assert await imported(tables, written(folder, turned), prune=True) == {"ftp_path": (0, 0, 1), "ne": (0, 0, 0)}
        assert sorted(await tables.rows("ne_rows")) == [(1, "gnb-2"), (2, "gnb-3"), (3, "gnb-1")]
        assert await tables.rows("ftp_path_rows") == [(1, 1, "/Access2/")]
        dictionaries = Dictionaries(tables)
        assert (await dictionaries.current()).ne_id("gnb-3") == 2
        assert await imported(tables, written(folder, {"ne": "id,name\n2,gnb-4\n"})) == {"ne": (0, 1, 0)}
        assert (await dictionaries.current()).ne_id("gnb-4") == 2, "whoever reads a file now reads it by the import"
        history = (await DictionaryImport(tables).history())[1:]
    assert [(each["table"], each["added"], each["changed"], each["removed"]) for each in history[:3]] == [
        ("ftp_path", 0, 0, 1),
        ("ne", 1, 2, 0),
        ("ftp_path", 0, 1, 0),
    ]
    assert len({each["digest"] for each in history if each["table"] == "ftp_path"}) == 3
    assert [each["source"] for each in history] == [str(folder)] * 10


async def test_a_foreign_table_keeps_its_further_columns(
    mariadb_server: MariaServer, mariadb_database: str, tmp_path: Path
) -> None:
    database = mariadb_database.rpartition("/")[2]
    mariadb_server.query("CREATE TABLE ne (id INT PRIMARY KEY, name VARCHAR(50), vendor VARCHAR(9))", database)
    mariadb_server.query("INSERT INTO ne VALUES (1, 'old', 'acme'), (9, 'other', 'x')", database)
    async with operator_tables(mariadb_database) as tables:
        assert await imported(tables, written(tmp_path, {"ne": FILES["ne"]})) == {"ne": (1, 1, 0)}
    found = mariadb_server.query("SELECT * FROM ne ORDER BY id", database)
    assert found == [(1, "gnb-1", "acme"), (2, "gnb-2", None), (9, "other", "x")]


SERVER = "id,system_type,host,port,user_name,password_ref\n"
BAD: Mapping[str, tuple[dict[str, str], type[CallerError], str]] = {
    "a password in clear": ({"ftp_server": f"{SERVER}1,5GA,h,21,pm,hunter2\n"}, CallerError, "line 2"),
    "a column of passwords": (
        {"ftp_server": "id,system_type,host,port,user_name,password\n1,5GA,h,21,pm,hunter2\n"},
        CallerError,
        "column of passwords",
    ),
    "a password in the host": (
        {"ftp_server": f"{SERVER}1,5GA,ftp://pm:hunter2@h,21,pm,env:A\n"},
        CallerError,
        "is not a host",
    ),
    "a server without a port": ({"ftp_server": f"{SERVER}1,5GA,h,0,pm,env:A\n"}, CallerError, "lacks a port"),
    "a path of no server": ({"ftp_path": "id,server_id,path\n1,7,/a/\n"}, Conflict, "server 7"),
    "a server that stands there twice": (
        {"ftp_server": f"{SERVER}1,5GA,h,21,pm,env:A\n2,5GA,ftp://h,21,pm,env:B\n"},
        Conflict,
        "servers 1 and 2 are the same one, h_21_pm, for 5GA",
    ),
    "a folder of one server for two systems": (
        {
            "ftp_server": f"{SERVER}1,5GA,h,21,pm,env:A\n2,4GA,h,21,pm,env:A\n",
            "ftp_path": "id,server_id,path\n1,1,/5g/\n2,2,/4g/\n3,2,/5g/\n",
        },
        Conflict,
        "both have the folder /5g/",
    ),
    "an element with two ids": ({"ne": "id,name\n1,a\n2,a\n"}, Conflict, "ids 1 and 2"),
    "a key twice": ({"ne": "id,name\n1,a\n1,b\n"}, CallerError, "line 3: 1 stands there twice"),
    "no number": ({"ne": "id,name\nx,a\n"}, CallerError, "'x' is no whole number"),
    "no name": ({"ne": "id,name\n1,\n"}, CallerError, "a value is missing"),
    "a formula that calls": (
        {"pm_kpi": "name,formula,unit\nk,__import__('os'),\n"},
        CallerError,
        "line 2: the formula cannot be read",
    ),
    "no file at all": ({}, NotFound, "no file to import"),
}


async def test_what_cannot_work_is_refused_whole(mariadb_database: str, tmp_path: Path) -> None:
    async with operator_tables(mariadb_database) as tables:
        for what, (files, kind, words) in BAD.items():
            with pytest.raises(kind) as refused:
                await DictionaryImport(tables).preview(written(tmp_path, files))
            told = f"{refused.value} {refused.value.hint}"
            assert words in told, what
            assert "hunter2" not in told, what
