"""What happens in the demo: elements upload over FTP, a process is killed in the middle of its files, all is counted.

Two processes of `pm all` list, fetch, write and move. Files come in, some at a time; one of the two is killed with -9
while it has files in hand, and another takes its place and its spool. When everything has come to its end, the second
uploads follow: corrections, and the whole of what was half before.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from headrace.errors import OperatorError
from headrace.services import Program
from headrace.testing import FtpServer, ServiceProcess
from headrace_pm.demo.comparison import compared, parquet_rows, table_rows
from headrace_pm.demo.network_site import FIRST, LATER, PATH, NetworkSite, PlannedFile
from headrace_pm.demo.pipeline_state import FileState, PipelineState
from headrace_pm.demo.receipt import CounterReceipt
from headrace_pm.network.generated_folder import BAD, INCOMPLETE, ROWS, UNKNOWN, FolderPlan
from headrace_pm.parquet.revision_file import published, revision_path

HEADRACE = (sys.executable, "-m", "headrace", "pm")
SPOOLS = ("spool-1", "spool-2")
# Files come in groups, so that there is something to do whenever somebody looks.
UPLOADS, UPLOAD_EVERY_S = 8, 0.3
LOOK_S = 0.02
WAIT_S_MAX = 120.0
PASSWORD = "PM_DEMO_PASSWORD"
SETTINGS = {
    "PM_LEASE_S": "2",
    "PM_SETTLE_S": "0.2",
    "PM_SCAN_INTERVAL_S": "0.5",
    "PM_MOVE_INTERVAL_S": "0.5",
    "PM_RECOVER_INTERVAL_S": "2",
}
DATABASE_FILE, COUNTERS = "pm.db", "parquet"
MOVED, ERROR = "MOVED", "ERROR"
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """What happened so many seconds after the beginning."""

    at_s: float
    text: str


@dataclass
class CounterStory:
    """One run of the demo in a folder of its own. `events` and `states` are for the page."""

    folder: Path
    environment: Mapping[str, str]
    say: Callable[[str], None]
    events: list[DemoEvent] = field(default_factory=list)
    states: dict[str, FileState] = field(default_factory=dict)
    site: NetworkSite = field(init=False)
    killed: int = 0
    held_when_killed: int = 0
    _processes: dict[str, ServiceProcess] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def tell(self, plan: FolderPlan) -> CounterReceipt:
        """All of it; the receipt has no page yet."""
        self._begun = time.monotonic()
        async with AsyncExitStack() as stack:
            self._stack = stack
            server = stack.enter_context(await asyncio.to_thread(FtpServer))
            self.site = await asyncio.to_thread(NetworkSite, plan, self.folder, server)
            place = urlsplit(server.url)
            self._variables = {
                **self.environment,
                **SETTINGS,
                "PM_HOME": str(self.folder),
                PASSWORD: place.password or "",
            }
            self._state = PipelineState(self.folder / DATABASE_FILE)
            await self._prepare()
            self._note(f"{len(self.site.names)} files begin to come to {place.hostname}:{place.port}{PATH}")
            await asyncio.gather(*(self._start(spool) for spool in SPOOLS))
            await self._first_uploads()
            early_rows = await self._half_uploads_wait()
            await self._later_uploads()
            return await self._receipt(server, early_rows)

    async def _first_uploads(self) -> None:
        uploading = asyncio.ensure_future(self._upload_by_and_by())
        spool = await self._kill_one()
        another = await self._start(spool)
        self._note(f"pm all {another.pid} takes the place of the dead one")
        await uploading
        self._note(f"{len(self.site.names)} files were uploaded meanwhile")

    async def _upload_by_and_by(self) -> None:
        """Elements do not upload all at once."""
        for number in range(UPLOADS):
            await asyncio.to_thread(self.site.upload, self.site.names[number::UPLOADS], FIRST)
            await asyncio.sleep(UPLOAD_EVERY_S)

    async def _kill_one(self) -> str:
        """Whichever has files in hand: frozen first, so that it still has them when it dies. Its spool stays."""

        def held() -> str | None:
            return next((spool for spool, process in self._processes.items() if self._is_held(process)), None)

        spool = await self._until(held, "a process has a file in hand")
        process = self._processes.pop(spool)
        self.held_when_killed = self._state.held_by(process.pid)
        process.kill()
        self.killed += 1
        self._note(f"pm all {process.pid} is killed with -9 while it has {self.held_when_killed} files in hand")
        return spool

    def _is_held(self, process: ServiceProcess) -> bool:
        if not self._state.held_by(process.pid):
            return False
        process.freeze()
        if self._state.held_by(process.pid):
            return True
        process.wake()
        return False

    async def _half_uploads_wait(self) -> int:
        """Rows of half uploads that are in a sink when all other files have come to their end."""
        half, moved, refused = self.site.named(INCOMPLETE), self.site.named(ROWS), self.site.named(BAD, UNKNOWN)
        await self._ended(moved, refused, {})
        versions = self._state.versions_of(half)
        table = sum(map(self._state.rows_of, versions))
        files = filter(None, (published(revision_path(self.folder / COUNTERS, each)) for each in versions))
        self._note(f"{len(moved)} files are in both sinks and moved, {len(refused)} refused; {len(half)} halves wait")
        return table + sum(each.checkpoint.rows for each in files)

    async def _later_uploads(self) -> None:
        later, half = self.site.later, self.site.named(INCOMPLETE)
        await asyncio.to_thread(self.site.upload, later, LATER)
        self._note(f"{len(later) - len(half)} files are uploaded again with other values, {len(half)} are whole now")
        corrected = dict.fromkeys(set(later) - half, 2)
        await self._ended(self.site.named(ROWS, INCOMPLETE), self.site.named(BAD, UNKNOWN), corrected)

    async def _ended(self, moved: set[str], refused: set[str], revisions: Mapping[str, int]) -> None:
        """Until these files are moved, with so many revisions, and those are refused."""

        def ended() -> bool | None:
            self.states = self._state.files()
            open_ones = [name for name in moved if not self._is_moved(name, revisions.get(name, 1))]
            open_ones += [name for name in refused if name not in self.states or self.states[name].state != ERROR]
            return None if open_ones else True

        await self._until(ended, f"{len(moved)} files are moved and {len(refused)} refused")

    def _is_moved(self, name: str, revisions: int) -> bool:
        found = self.states.get(name)
        return found is not None and found.state == MOVED and found.revisions >= revisions

    async def _receipt(self, server: FtpServer, early_rows: int) -> CounterReceipt:
        planned = self.site.planned()
        done = [each for each in planned if each.is_done]
        refused = [each for each in planned if not each.is_done]
        truth = await asyncio.to_thread(self.site.truth)
        archived_wanted, archived = self.site.archived()
        self._note("both sinks are read and compared with the truth, row for row")
        return CounterReceipt(
            files=len(planned),
            uploads=len(self.site.sent),
            done_wanted=len(done),
            done=sum(self.states[each.name].state == MOVED for each in done if each.name in self.states),
            refused_wanted=len(refused),
            refused=sum(self._is_refused(each) for each in refused),
            archived_wanted=archived_wanted,
            archived=archived,
            half_uploads=len(self.site.named(INCOMPLETE)),
            early_rows=early_rows,
            rows_wanted=len(truth),
            table=await asyncio.to_thread(lambda: compared(table_rows(self.folder / DATABASE_FILE), truth)),
            parquet=await asyncio.to_thread(lambda: compared(parquet_rows(self.folder / COUNTERS), truth)),
            killed=self.killed,
            held_when_killed=self.held_when_killed,
            logins=server.login_count(),
            fetched=sum(each.command == "RETR" for each in server.transfers()),
            seconds=round(time.monotonic() - self._begun, 2),
            page="",
        )

    def _is_refused(self, planned: PlannedFile) -> bool:
        found = self.states.get(planned.name)
        return found is not None and found.state == ERROR and planned.error in found.error and bool(found.error)

    async def _prepare(self) -> None:
        for words in (("init",), ("import", str(self.site.tables(f"env:{PASSWORD}")))):
            running = await asyncio.create_subprocess_exec(
                *(*HEADRACE, *words), env=self._variables, stdout=DEVNULL, stderr=PIPE
            )
            _, told = await running.communicate()
            if running.returncode:
                raise OperatorError(f"pm {words[0]} failed", told.decode(errors="replace").strip())

    async def _start(self, spool: str) -> ServiceProcess:
        log = self.folder / f"all-{next(self._numbers)}.log"
        variables = {**self._variables, "PM_SPOOL_DIR": str(self.folder / spool)}
        program = Program("pm all", (*HEADRACE, "all", "--port", "0"), variables)
        started = await self._stack.enter_async_context(ServiceProcess(program, log))
        self._processes[spool] = started
        self._note(f"pm all {started.pid} is ready at {started.url}")
        return started

    async def _until(self, look: Callable[[], Found | None], what: str) -> Found:
        deadline = time.monotonic() + WAIT_S_MAX
        while (found := await asyncio.to_thread(look)) is None:
            hint = f"see the logs in {self.folder}"
            for process in self._processes.values():
                if process.process.poll() is not None:
                    raise OperatorError(f"pm all {process.pid} has ended by itself", hint)
            if time.monotonic() > deadline:
                raise OperatorError(f"not within {WAIT_S_MAX:g} s: {what}", hint)
            await asyncio.sleep(LOOK_S)
        return found

    def _note(self, text: str) -> None:
        self.events.append(DemoEvent(time.monotonic() - self._begun, text))
        self.say(text)
