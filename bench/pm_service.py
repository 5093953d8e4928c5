"""`pm all` as it is installed, or `pm worker`, on the servers of a site: started, watched and stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pm_flow_site import FlowPlace, FlowSite
from pm_usual_parts import PATH

from headrace.services import Program
from headrace.testing import ServiceProcess

HEADRACE = (sys.executable, "-m", "headrace", "pm")
LOOK_S, WAIT_S_MAX = 0.2, 3_600.0
DONE = "SELECT COUNT(*) FROM file_processing_state WHERE mysql_processed AND clickhouse_processed"
MOVED = "SELECT COUNT(*) FROM file_processing_state WHERE state = 'MOVED'"


@dataclass
class MemoryWatch:
    """What a process had of memory, in MB: the most at any time (VmHWM), and that part of it which is in no file
    (RssAnon) over time."""

    pid: int
    peak_mb: float = 0.0
    anonymous: list[float] = field(default_factory=list)

    def look(self) -> None:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                self.peak_mb = round(int(value.split()[0]) / 1_024, 1)
            elif name == "RssAnon":
                self.anonymous.append(round(int(value.split()[0]) / 1_024, 1))


class RunningService:
    """One process of `pm all`, and the database that it works on."""

    def __init__(self, site: FlowSite, place: FlowPlace, process: ServiceProcess) -> None:
        self._site, self._database = site, place.mysql.rpartition("/")[2]
        self.memory = MemoryWatch(process.pid)

    def count(self, statement: str) -> int:
        return int(self._site.maria.query(statement, self._database)[0][0])

    def until(self, statement: str, wanted: int) -> None:
        """Until a count is reached; memory is looked at meanwhile."""
        deadline, paused = time.monotonic() + WAIT_S_MAX, threading.Event()
        while (found := self.count(statement)) < wanted:
            self.memory.look()
            assert time.monotonic() < deadline, f"{found} of {wanted}"
            paused.wait(LOOK_S)
        self.memory.look()


@contextmanager
def running(site: FlowSite, place: FlowPlace, part: str = "all", **settings: str) -> Iterator[RunningService]:
    """Tables, dictionaries and the server are there, and the process is ready. If it is not to be `all`, a scan and a
    mover run beside it, in a process of their own each."""
    topic, home = urlsplit(place.topic), site.home / "service"
    home.mkdir(exist_ok=True)
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PM_")},
        "PM_MYSQL_DSN": place.mysql,
        "PM_REDIS_URL": site.redis.url,
        "PM_KAFKA_BOOTSTRAP": topic.netloc,
        "PM_KAFKA_TOPIC": topic.path.lstrip("/"),
        "PM_SPOOL_DIR": str(home / "spool"),
        "PM_HOME": str(home),
        "BENCH_PASSWORD": urlsplit(site.ftp.url).password or "",
        **settings,
    }
    ftp = urlsplit(site.ftp.url)
    server = f"1,5GA,{ftp.hostname},{ftp.port},{ftp.username},env:BENCH_PASSWORD"
    (site.dictionaries / "ftp_server.csv").write_text(f"id,system_type,host,port,user_name,password_ref\n{server}\n")
    (site.dictionaries / "ftp_path.csv").write_text(f"id,server_id,path\n1,1,{PATH}\n")
    # It makes the tables, too.
    command = [*HEADRACE, "import", str(site.dictionaries)]
    subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
    names = ["all"] if part == "all" else [part, *(name for name in ("scan", "mover") if name != part)]
    with ExitStack() as stack:
        processes = [ServiceProcess(_program(name, variables), home / f"{name}.log") for name in names]
        for process in processes:
            stack.callback(process.stop)
        for process in processes:
            assert process.url
        yield RunningService(site, place, processes[0])


def _program(name: str, variables: Mapping[str, str]) -> Program:
    return Program(f"pm {name}", (*HEADRACE, name, "--port", "0"), variables)
