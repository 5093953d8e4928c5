"""Real servers for whole flows of files: FTP, MariaDB, Kafka and Redis, and a folder of generated files."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from confluent_kafka import Consumer, TopicPartition
from pm_usual_parts import FIRST_STOP, LAST_STOP, PATH, FlowOrders, connected
from rig import peak_rss_mb

from headrace.tables import open_tables
from headrace.testing.rig.children import family
from headrace.testing.rig.ftp import FtpServer
from headrace.testing.rig.kafka import KafkaServer
from headrace.testing.rig.mariadb import MariaServer
from headrace.testing.rig.redis import RedisServer
from headrace.testing.rig.server import Server
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.tables import PM_TABLES

WAIT_S_MAX = 3_600.0
READY_S_MAX = 120.0
Contender = Callable[[FlowOrders, Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """A database and a topic of one contender."""

    mysql: str
    topic: str


@dataclass(frozen=True, slots=True)
class FlowCost:
    """What a contender took: seconds of the clock, of its own processors and of the servers'; the most memory that one
    of its processes had; and what it asked of the file server."""

    wall_s: float
    client_cpu_s: float
    server_cpu_s: Mapping[str, float]
    peak_mb: float
    logins: int
    fetched_bytes: int


class FlowSite:
    """All servers, each started when it is first asked for, and the files of one plan after the other."""

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self.home = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd())))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def ftp(self) -> FtpServer:
        return self._stack.enter_context(FtpServer())

    @cached_property
    def maria(self) -> MariaServer:
        return self._stack.enter_context(MariaServer({"innodb-buffer-pool-size": "512M"}))

    @cached_property
    def kafka(self) -> KafkaServer:
        return self._stack.enter_context(KafkaServer({"heap": "512m"}))

    @cached_property
    def redis(self) -> RedisServer:
        return self._stack.enter_context(RedisServer())

    def make(self, files: int, counters: int) -> None:
        """Files of a plan, in the place of those before."""
        for folder in (self.home / "made", self.dictionaries):
            shutil.rmtree(folder, ignore_errors=True)
        GeneratedFolder(FolderPlan(files, counters)).write(self.home / "made", self.dictionaries, None)

    @property
    def dictionaries(self) -> Path:
        return self.home / "plan"

    @property
    def folder(self) -> Path:
        """What the server shows as the folder of new files."""
        return self.ftp.files / PATH.strip("/")

    @contextmanager
    def place(self) -> Iterator[FlowPlace]:
        """A fresh database and topic, and empty folders."""
        self.ftp.empty()
        self.redis.empty(0)
        (self.folder / FIRST_STOP / LAST_STOP.rpartition(FIRST_STOP)[2]).mkdir(parents=True)
        with self.maria.database() as mysql, self.kafka.topic() as topic:
            yield FlowPlace(mysql, topic)

    def make_tables(self, place: FlowPlace) -> None:
        """The tables of pm, empty."""
        asyncio.run(_make_tables(place.mysql))

    def rows(self, place: FlowPlace) -> int:
        """Rows in the table of counters, which may take a while to count."""
        with closing(connected(place.mysql)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM pm_counter_data")
            (found,) = cursor.fetchall()
        return int(found[0])

    def sizes(self, count: int) -> int:
        """Bytes of the first files."""
        return sum(path.stat().st_size for path in self._made(count))

    def stage(self, count: int) -> Path:
        """Copies of the first files, where no client looks yet."""
        staged = self.ftp.home / "staged"
        staged.mkdir(exist_ok=True)
        for path in self._made(count):
            shutil.copy(path, staged)
        return staged

    def appear(self, staged: Path) -> None:
        """They are in the folder, within milliseconds."""
        for path in sorted(staged.iterdir()):
            path.rename(self.folder / path.name)

    def servers_cpu_s(self) -> dict[str, float]:
        """By the name of the server."""
        servers: tuple[Server, ...] = (self.ftp, self.maria, self.kafka, self.redis)
        return {server.name: sum(_cpu_s(pid) for pid in family(server.pid)) for server in servers}

    def fetched(self) -> tuple[int, int]:
        """Logins, and bytes that the file server sent."""
        sent = sum(each.byte_count for each in self.ftp.transfers() if each.command == "RETR")
        return self.ftp.login_count(), sent

    def measured(self, contender: Contender, place: FlowPlace, count: int) -> FlowCost:
        """A contender in a process of its own, from when the files are there until it ends."""
        context = multiprocessing.get_context("spawn")
        ready, go, peak = context.Event(), context.Event(), context.Value("d", 0.0)
        orders = FlowOrders(
            self.ftp.url, place.mysql, place.topic, str(self.dictionaries), str(self.home / "made"), count
        )
        staged = self.stage(count)
        child = context.Process(target=_run, args=(contender, orders, _Signals(ready, go, peak)))
        child.start()
        assert ready.wait(READY_S_MAX)
        with self.counting() as cost:
            self.appear(staged)
            go.set()
            child.join()
        assert child.exitcode == 0
        return replace(cost(), peak_mb=peak.value)

    @contextmanager
    def counting(self) -> Iterator[Callable[[], FlowCost]]:
        """Count what happens in this block. Processes of the contender must have ended when the answer is asked for."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        servers_s, began = self.servers_cpu_s(), time.monotonic()
        ended: list[float] = []
        yield lambda: self._cost(before, servers_s, ended[0])
        ended.append(time.monotonic() - began)

    def _cost(self, before: resource.struct_rusage, servers_s: Mapping[str, float], wall_s: float) -> FlowCost:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        client_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        logins, fetched_bytes = self.fetched()
        took_s = {name: found - servers_s[name] for name, found in self.servers_cpu_s().items()}
        return FlowCost(wall_s, client_s, took_s, 0.0, logins, fetched_bytes)

    def _made(self, count: int) -> list[Path]:
        return sorted((self.home / "made").iterdir())[:count]


@dataclass(frozen=True, slots=True)
class _Signals:
    """Between a contender's process and ours."""

    ready: Any
    go: Any
    peak: Any


def _run(contender: Contender, orders: FlowOrders, signals: _Signals) -> None:
    def begin() -> None:
        signals.ready.set()
        assert signals.go.wait(READY_S_MAX)

    contender(orders, begin)
    below = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    signals.peak.value = max(peak_rss_mb([os.getpid()]), round(below / 1_024, 1))


async def _make_tables(url: str) -> None:
    async with open_tables(url, [PM_TABLES]):
        pass


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def records(topic_url: str) -> int:
    """How many a topic holds."""
    place = urlsplit(topic_url)
    consumer = Consumer({"bootstrap.servers": place.netloc, "group.id": "bench", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(place.path.lstrip("/"), 0), timeout=60)[1])
    finally:
        consumer.close()
