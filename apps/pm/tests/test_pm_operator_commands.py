"""The commands for operators, typed as they would type them, on a real database."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pm_operator_world import FILES, counted, operator_tables, query, written

from headrace.testing.rig.ftp import PASSWORD, FtpServer
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.operators.unknown_counters import UnknownCounters

Command = Callable[..., "subprocess.CompletedProcess[str]"]
TWO_SERVERS = ((1, "127.0.0.1", "TEST"), (2, "localhost", "WRONG"))


@pytest.fixture
def pm(headrace_command: Command, operator_url: str, tmp_path: Path) -> Callable[..., Any]:
    """`headrace --json pm …` on the tables of a fresh database; its document."""
    is_embedded = operator_url.startswith("sqlite")
    place = {"PM_HOME": str(tmp_path)} if is_embedded else {"PM_MYSQL_DSN": operator_url}

    def typed(*words: str, code: int = 0) -> Any:
        done = headrace_command("--json", "pm", *words, **place)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return typed


async def filled(url: str) -> None:
    async with operator_tables(url) as tables:
        await counted(tables, 1, range(8), {101: 1.0, 102: 4.0})
        await counted(tables, 2, range(4), {101: 1.0})
        unknown = UnknownCounters(tables)
        unknown.note(1, "a.dat", {777: 5})
        await unknown.flush()


def test_dictionaries_gaps_and_kpis_by_command(pm: Callable[..., Any], operator_url: str, tmp_path: Path) -> None:
    folder = str(written(tmp_path / "dictionaries"))
    assert pm("import", folder)["tables"]["ne"] == {
        "added": 2,
        "changed": 0,
        "removed": 0,
        "rows": 2,
        "examples": ["+ 1, gnb-1", "+ 2, gnb-2"],
    }
    other = str(written(tmp_path / "other", {"ne": "id,name\n3,gnb-3\n"}))
    assert pm("import", other, "--dry-run")["tables"]["ne"]["added"] == 1
    assert [each["table"] for each in pm("import", "--history")] == list(reversed(FILES))
    asyncio.run(filled(operator_url))
    day = ("--from", "2026-01-01", "--to", "2026-01-01T02:00")
    found = pm("gaps", *day)
    assert (found["elements"], found["periods"], found["missing"]) == (2, 8, 4)
    assert found["gaps"][0]["gaps"] == [
        {"from": "2026-01-01T01:00:00+00:00", "to": "2026-01-01T02:00:00+00:00", "periods": 4}
    ]
    assert [each["name"] for each in pm("kpi", "list")] == ["rrc_success"]
    shown = pm("kpi", "show", "rrc_success", *day, "--each")
    assert [(each["ne"], each["value"], each["missing"]) for each in shown["values"]] == [
        ("gnb-1", 25.0, []),
        ("gnb-2", None, [102]),
        ("gnb-1", 25.0, []),
        ("gnb-2", None, [101, 102]),
    ]
    assert (shown["missing"], shown["undefined"]) == (2, 0)
    rows = tmp_path / "counter_cat.csv"
    assert pm("counters", "unknown", "--csv", str(rows), "--group", "VoNR")["counters"][0]["counter_id"] == 777
    assert rows.read_text("utf-8") == "counter_id,object_level,group_code\n777,3,VoNR\n"
    assert pm("import", str(tmp_path))["tables"]["counter_cat"]["added"] == 1
    assert pm("counters", "unknown")["counters"] == []
    page = tmp_path / "report.html"
    assert pm("report", "--out", str(page), *day, "--language", "vi")["missing"] == 4
    assert "Thiếu 4 chu kỳ" in page.read_text("utf-8")


ADD = (
    "INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, state, error_message,"
    " mysql_processed, clickhouse_processed, retry_count, max_retry) VALUES ('5GA', 'h_21_u', '/A/', {})"
)
ROWS = (
    "'a_1.dat', 'ERROR', 'Unknown NE: gnb-2', FALSE, FALSE, 0, 3",
    "'a%2.dat', 'ERROR', 'bad frame', FALSE, FALSE, 0, 3",
    "'ab1.dat', 'MOVED', NULL, TRUE, TRUE, 0, 3",
    "'b.dat', 'PENDING', NULL, FALSE, FALSE, 0, 3",
)


def test_files_are_listed_counted_and_redone_by_command(
    pm: Callable[..., Any], operator_url: str, tmp_path: Path
) -> None:
    assert pm("import", str(written(tmp_path / "d", {"ne": "id,name\n1,gnb-1\n"})))["files_released"] == 0
    query(operator_url, *(ADD.format(row) for row in ROWS))
    # Without them errors below their limit come back by a sweep, as they should.
    dead = (
        "INSERT INTO pm_file_claim (file_id, is_permanent, left_as) SELECT id, TRUE, state FROM file_processing_state"
    )
    query(operator_url, f"{dead} WHERE state = 'ERROR'")
    found = pm("status")
    assert {state: facts["files"] for state, facts in found["states"].items() if facts["files"]} == {
        "ERROR": 2,
        "MOVED": 1,
        "PENDING": 1,
    }
    assert len(found["states"]) == 8
    assert (found["sinks"]["mysql"]["files"], found["servers"][0]["errors"], found["spool"]["files"]) == (1, 2, 0)
    assert {each["message"] for each in found["errors"]} == {"Unknown NE: gnb-2", "bad frame"}
    first = pm("files", "--limit", "3")
    assert [each["file_name"] for each in first["files"]] == ["b.dat", "ab1.dat", "a%2.dat"]
    rest = pm("files", "--limit", "3", "--before", str(first["next_before"]))
    assert ([each["file_name"] for each in rest["files"]], rest["next_before"]) == (["a_1.dat"], None)
    # What stands for anything in SQL stands for itself here.
    assert [each["file_name"] for each in pm("files", "--name", "a_*")["files"]] == ["a_1.dat"]
    assert [each["file_name"] for each in pm("files", "--name", "*%*")["files"]] == ["a%2.dat"]
    assert pm("files", "--name", "A_*")["files"] == [], "names that differ in case are two"
    assert pm("redo", "--name", "A*", code=3)["files"] == 0
    assert [each["error_message"] for each in pm("files", "--error", "bad*")["files"]] == ["bad frame"]
    assert pm("files", "--server", "other")["files"] == []
    assert pm("files", "--state", "PENDIG", code=2)["error"]["message"] == "no file is in the state PENDIG"
    assert pm("redo", "--state", "error", "--yes", code=2)["error"]["message"] == "no file is in the state error"
    assert pm("redo", code=2)["error"]["message"] == "which files?"
    assert pm("redo", "--name", "c*", code=3)["files"] == 0
    counted_only = pm("redo", "--name", "a*")
    assert (counted_only["by_state"], counted_only["redone"]) == ({"ERROR": 2, "MOVED": 1}, None)
    assert pm("redo", "--name", "a%*", "--yes")["redone"] == 1
    assert {each["state"] for each in pm("files", "--name", "a%*")["files"]} == {"PENDING"}
    # The element is known from here on, and its file goes on with the import.
    assert pm("import", str(written(tmp_path / "d", {"ne": "id,name\n2,gnb-2\n"})))["files_released"] == 1
    assert pm("status")["states"]["ERROR"]["files"] == 0


def test_the_archive_is_shown_and_then_cleared_by_command(
    headrace_command: Command, ftp_site: FtpServer, tmp_path: Path
) -> None:
    place = {"PM_HOME": str(tmp_path / "home"), "PM_TEST_PASSWORD": PASSWORD}

    def pm(*words: str, code: int = 0) -> Any:
        done = headrace_command("--json", "pm", *words, **place)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    server = (
        f"id,system_type,host,port,user_name,password_ref\n1,5GA,127.0.0.1,{ftp_site.port},rig,env:PM_TEST_PASSWORD\n"
    )
    pm("import", str(written(tmp_path / "d", {"ftp_server": server, "ftp_path": "id,server_id,path\n1,1,/A/\n"})))
    done = ftp_site.files / "A" / "ClickHouse" / "Done"
    done.mkdir(parents=True)
    for name, days in (("old.dat", 40), ("older.dat", 400), ("new.dat", 1)):
        (done / name).write_bytes(name.encode())
        os.utime(done / name, (time.time() - days * 86_400,) * 2)
    shown = pm("archive", "--older-than", "30d")
    assert (shown["files"], shown["bytes"], shown["deleted"]) == (2, len("old.datolder.dat"), None)
    assert shown["folders"][0]["names"] == ["/A/ClickHouse/Done/older.dat", "/A/ClickHouse/Done/old.dat"]
    assert len(list(done.iterdir())) == 3, "only shown"
    assert pm("archive", "--older-than", "30d", "--yes")["deleted"] == 2
    assert [path.name for path in done.iterdir()] == ["new.dat"]
    assert pm("archive", "--older-than", "2h", code=2)["error"]["message"] == "an archive is kept for a day at least"
    assert pm("archive", "--older-than", "x", code=2)["error"]["hint"] == "write 30d or 48h; a day at least"
    assert "no server other" in pm("archive", "--older-than", "9d", "--server", "other", code=3)["error"]["message"]
    ftp_site.stop()
    told = pm("archive", "--older-than", "30d", code=5)["folders"][0]["error"]
    assert "127.0.0.1" in told
    ftp_site.start()


def test_doctor_looks_at_every_folder(headrace_command: Command, ftp_site: FtpServer, tmp_path: Path) -> None:
    """A server that lets nobody in, and a folder that is not there, bring no file: nothing else would tell."""
    place = {"PM_HOME": str(tmp_path / "home"), "PM_TEST_PASSWORD": PASSWORD, "PM_WRONG_PASSWORD": "hunter2"}
    rows = (f"{number},5GA,{host},{ftp_site.port},rig,env:PM_{ref}_PASSWORD" for number, host, ref in TWO_SERVERS)
    server = "\n".join(["id,system_type,host,port,user_name,password_ref", *rows, ""])
    (ftp_site.files / "A").mkdir()
    paths = "id,server_id,path\n1,1,/A/\n2,1,/Missing/\n3,2,/A/\n"
    folder = written(tmp_path / "d", {"ftp_server": server, "ftp_path": paths})
    assert headrace_command("pm", "import", str(folder), **place).returncode == 0
    told = headrace_command("pm", "doctor", **place).stdout
    first, second = (f"{host}_{ftp_site.port}_rig" for _number, host, _ref in TWO_SERVERS)
    assert f"bad      folder: {first}: enter /Missing/: 550" in told
    assert f"bad      folder: {second}: log in: 530" in told
    assert "ok       folder: 1 of 3 can be listed" in told
    assert "hunter2" not in told


def test_reading_creates_nothing(
    headrace_command: Command, mariadb_server: MariaServer, mariadb_database: str, tmp_path: Path
) -> None:
    """All commands have their tables from one place, which is asked here; `doctor` has its own."""
    home, database = tmp_path / "none", mariadb_database.rpartition("/")[2]
    folder = str(written(tmp_path / "d"))
    on_file, on_server = {"PM_HOME": str(home), "PM_MYSQL_DSN": ""}, {"PM_MYSQL_DSN": mariadb_database}
    for words, where in (
        (("status",), on_server),
        (("doctor",), on_server),
        (("doctor",), on_file),
        (("import", folder, "--dry-run"), on_file),
    ):
        done = headrace_command("pm", *words, PM_KAFKA_BOOTSTRAP="127.0.0.1:1", **where)
        assert done.returncode != 0, words
        assert "headrace pm init" in done.stdout + done.stderr, words
    assert not home.exists()
    assert mariadb_server.query("SHOW TABLES", database) == []


def test_lists_for_people_say_what_they_leave_out(headrace_command: Command, tmp_path: Path) -> None:
    place = {"PM_HOME": str(tmp_path / "home"), "PM_MYSQL_DSN": ""}
    elements = "".join(f"{number},gnb-{number}\n" for number in range(1, 29))
    folder = written(tmp_path / "d", {**FILES, "ne": f"id,name\n{elements}"})
    imported = headrace_command("pm", "import", str(folder), **place)
    assert "  + 10, gnb-10\n  … and 18 more\n" in imported.stdout
    asyncio.run(two_hours(f"sqlite:///{tmp_path / 'home' / 'pm.db'}"))
    day = ("--from", "2026-01-01", "--to", "2026-01-02")
    told = headrace_command("pm", "gaps", "--ne", "gnb-1", *day, **place).stdout
    assert "01-01 00:15 to 00:30, 01-01 00:45 to 01-02 00:00" in " ".join(told.split())
    told = headrace_command("pm", "kpi", "show", "rrc_success", *day, **place).stdout
    assert "2026-01-01 00:00" in told
    assert "2026-01-01 05:00" not in told
    assert "23 of 24 values have no record at all" in told


async def two_hours(url: str) -> None:
    async with operator_tables(url) as tables:
        await counted(tables, 1, (0, 2), {101: 1.0, 102: 4.0})


def test_what_cannot_be_answered_says_what_to_do(headrace_command: Command, tmp_path: Path) -> None:
    asked = headrace_command("pm", "gaps", PM_HOME=str(tmp_path / "none"), PM_MYSQL_DSN="")
    assert (asked.returncode, "headrace pm init" in asked.stderr) == (3, True)
    assert not (tmp_path / "none").exists()
    nobody = "mysql://u:secret@127.0.0.1:1/x"
    asked = headrace_command("pm", "gaps", "--from", "yesterday", PM_MYSQL_DSN=nobody)
    assert (asked.returncode, "write 2026-01-31" in asked.stderr) == (2, True)
    asked = headrace_command("pm", "gaps", PM_MYSQL_DSN=nobody)
    assert (asked.returncode, "secret" in asked.stderr) == (5, False)
