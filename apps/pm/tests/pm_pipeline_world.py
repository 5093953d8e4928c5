"""A generated network on real servers, the variables that lead a process there, and what is in the sinks afterwards."""

from __future__ import annotations

import json
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pm_kafka_world import Row, messages_of
from pm_table_rows import mysql_rows

from headrace.commands import environment_without
from headrace.services import Program, Sources, read
from headrace.tables import open_tables
from headrace.testing import ServiceProcess
from headrace.testing.rig.ftp import FtpServer
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.counters.dictionary_files import read_dictionary
from headrace_pm.kafka.settings import PREFIX
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.network.truth import CounterKey, TrueRow, true_rows
from headrace_pm.operators import OPERATOR_TABLES
from headrace_pm.settings import PmSettings
from headrace_pm.tables import PM_TABLES

PATH = "/Access/5G/Others/"
PASSWORD = "PM_TEST_PASSWORD"
ENDED = ("MOVED", "ERROR")
QUICK = {
    "PM_SCAN_INTERVAL_S": "0.2",
    "PM_SETTLE_S": "0.1",
    "PM_MOVE_INTERVAL_S": "0.3",
    "PM_RECOVER_INTERVAL_S": "1",
    "PM_DICTIONARY_INTERVAL_S": "1",
    "PM_LEASE_S": "3",
    "PM_SINK_WAIT_S": "2",
    "PM_KAFKA_CLOSE_S": "1",
    "PM_FTP_CONNECT_S": "3",
    "PM_FTP_ANSWER_S": "3",
    "PM_FTP_DATA_S": "3",
    "REDIS_PASSWORD": "not asked for",
}


@dataclass(frozen=True)
class PipelineServers:
    """Where everything is: a database, a topic, a set of names, a folder on a server."""

    mariadb: MariaServer
    database: str
    redis_url: str
    topic_url: str
    ftp: FtpServer

    def variables(self, spool: Path) -> dict[str, str]:
        topic = urlsplit(self.topic_url)
        return {
            **QUICK,
            "PM_MYSQL_DSN": self.database,
            "PM_REDIS_URL": self.redis_url,
            "PM_KAFKA_BOOTSTRAP": topic.netloc,
            "PM_KAFKA_TOPIC": topic.path.lstrip("/"),
            "PM_SPOOL_DIR": str(spool),
            PASSWORD: "rig",
        }

    def settings(self, spool: Path, **more: str) -> PmSettings:
        return read(PmSettings, Sources(PREFIX, {**self.variables(spool), **more}))


@dataclass
class PipelineWorld:
    """A generated network whose files are on the server, and whose dictionaries are in the tables."""

    servers: PipelineServers
    home: Path
    plan: FolderPlan
    truths: list[Path] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.servers.ftp.files / PATH.strip("/")

    @property
    def made(self) -> Path:
        return self.home / "made"

    @property
    def beside(self) -> Path:
        return self.home / "made.plan"

    async def prepare(self) -> None:
        """Files are made but not uploaded; tables, servers and dictionaries are there."""
        truth = self.home / "truth.jsonl"
        GeneratedFolder(self.plan).write(self.made, self.beside, truth)
        self.truths = [truth]
        self.folder.mkdir(parents=True)
        found = read_dictionary(self.beside)
        opening = open_tables(self.servers.database, (PM_TABLES, OPERATOR_TABLES))
        async with opening as tables, tables.transaction() as tx:
            server = {"id": 1, "system_type": "5GA", "host": "127.0.0.1", "port": self.servers.ftp.port}
            tx.run_many("ftp_server_add", [{**server, "user_name": "rig", "password_ref": f"env:{PASSWORD}"}])
            tx.run_many("ftp_path_add", [{"id": 1, "server_id": 1, "path": PATH}])
            tx.run_many("ne_add", [{"id": number, "name": name} for name, number in found.ne.items()])
            cats = found.counter_cat.items()
            names = ("counter_id", "object_level", "group_code")
            tx.run_many("counter_cat_add", [dict(zip(names, (*key, group), strict=True)) for key, group in cats])
            columns = found.extra_field_column.items()
            tx.run_many("extra_field_column_add", [{"code": code, "level_id": level} for code, level in columns])
            functions = found.node_function.items()
            tx.run_many("node_function_add", [{"name": name, "rat_type": rat} for name, rat in functions])

    def upload(self, source: Path | None = None, which: slice = slice(None)) -> list[str]:
        """Put files, or some of them, where the server shows them, as one who renames does; their names."""
        names = []
        for path in sorted((source or self.made).iterdir())[which]:
            beside = self.folder / f"{path.name}.part"
            shutil.copyfile(path, beside)
            beside.rename(self.folder / path.name)
            names.append(path.name)
        return names

    def upload_again(self) -> list[str]:
        """What comes later under the same names: corrections, and the whole of half uploads."""
        self.truths.append(self.beside / "again.jsonl")
        return self.upload(self.beside / "again")

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        return self.servers.mariadb.query(statement, self.servers.database.rpartition("/")[2])

    def states(self) -> Counter[str]:
        return Counter(dict(self.query("SELECT state, COUNT(*) FROM file_processing_state GROUP BY state")))

    def are_ended(self, moved: int, errors: int) -> bool:
        """Whether so many are in the archive, and so many have failed for good."""
        found = self.states()
        return (found["MOVED"], found["ERROR"]) == (moved, errors)

    def failed(self) -> set[str]:
        return {name for (name,) in self.query("SELECT file_name FROM file_processing_state WHERE state = 'ERROR'")}

    def left(self) -> set[str]:
        """Files that are in the folder, and not in the archive."""
        return {path.name for path in self.folder.iterdir() if path.is_file()}

    def shown(self) -> str:
        """For a wait that was in vain."""
        rows = self.query("SELECT file_name, state, retry_count, error_message FROM file_processing_state LIMIT 100")
        return f"{self.states()}\n" + "\n".join(map(str, rows))

    def archived(self) -> list[Path]:
        done = self.folder / "ClickHouse" / "Done"
        return sorted(done.iterdir()) if done.is_dir() else []

    def service(self, name: str, log: str = "log", **variables: str) -> ServiceProcess:
        """`headrace pm NAME` in a process of its own."""
        words = (sys.executable, "-m", "headrace", "pm", name, "--port", "0")
        environment = {**environment_without(PREFIX), **self.servers.variables(self.home / "spool"), **variables}
        return ServiceProcess(Program(f"pm {name}", words, environment), self.home / log)

    def counts(self, names: Iterable[str], what: str) -> int:
        """For how many of these files something is true."""
        listed = ", ".join(f"'{name}'" for name in names)
        return int(
            self.query(f"SELECT SUM({what}) FROM file_processing_state WHERE file_name IN ({listed})")[0][0] or 0
        )

    def truth(self) -> dict[CounterKey, TrueRow]:
        return true_rows(*self.truths)


def true_values(truth: Mapping[CounterKey, TrueRow]) -> dict[CounterKey, tuple[object, ...]]:
    return {key: _values(row) for key, row in truth.items()}


def _values(row: TrueRow) -> tuple[object, ...]:
    return row.counter_value, row.group_code, row.cell_index, tuple(sorted(row.extra_field.items()))


def _of_row(row: Row) -> tuple[CounterKey, tuple[object, ...]]:
    key = CounterKey(*(row[name] for name in CounterKey._fields))
    return key, (row["counter_value"], row["group_code"], row["cell_index"], tuple(sorted(row["extra_field"].items())))


def row_values(rows: Iterable[Row]) -> dict[CounterKey, tuple[object, ...]]:
    """Rows whose key is there once."""
    found = [_of_row(row) for row in rows]
    assert len(dict(found)) == len(found)
    return dict(found)


def table_values(url: str) -> dict[CounterKey, tuple[object, ...]]:
    """What the table holds."""
    return row_values(mysql_rows(url))


def topic_values(topic_url: str) -> dict[CounterKey, tuple[object, ...]]:
    """What somebody has who reads the topic and keeps the highest version of each key."""
    newest: dict[CounterKey, tuple[int, tuple[object, ...]]] = {}
    for message in messages_of(topic_url):
        row = json.loads(message.value() or b"")
        key, values = _of_row(row)
        if key not in newest or row["version"] >= newest[key][0]:
            newest[key] = row["version"], values
    return {key: values for key, (_, values) in newest.items()}
