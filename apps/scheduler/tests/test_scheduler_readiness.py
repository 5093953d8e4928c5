"""Ready is who can do its work: also write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scheduler_world import World

from headrace.errors import TryAgain, Unreachable
from headrace.tables import Row
from headrace_scheduler.observe.write_probe import ASKED_EVERY_S, WriteProbe
from headrace_scheduler.service import SchedulerService
from headrace_scheduler.tables.job_tables import JobTables

CHILD = Path(__file__).parent / "full_disk_child.py"


def test_a_full_disk_is_not_ready_and_a_freed_one_is(tmp_path: Path) -> None:
    flags = ["--mount"] if os.geteuid() == 0 else ["--mount", "--map-root-user"]
    script = f"mount -t tmpfs -o size=12m headrace {tmp_path} && {sys.executable} {CHILD} {tmp_path}"
    command = ["unshare", *flags, "sh", "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert "KiB left" in found.pop("full")
    assert found == {"empty": "ready", "asked at once": "ready", "freed": "ready"}


class UnwrittenTables:
    """Tables of a server that answers reads and takes no write."""

    def __init__(self, inner: JobTables) -> None:
        self._inner, self.full, self.asked = inner, True, 0

    async def rows(self, name: str, /, **values: object) -> list[Row]:
        self.asked += name == "writes"
        if name == "writes" and self.full:
            raise Unreachable("no room for a commit log")
        return await self._inner.rows(name, **values)

    async def together(self, *writes: object) -> None:
        raise Unreachable("no room for a commit log")


async def test_a_server_that_takes_no_write_is_not_ready(world: World) -> None:
    now, tables = [0.0], UnwrittenTables(world.recorded)
    probe = WriteProbe(tables, None, lambda: now[0])
    for _ in range(3):
        with pytest.raises(Unreachable):
            await probe.answers()
    assert tables.asked == 1, "asking is for everybody, and writing is not"
    tables.full, now[0] = False, ASKED_EVERY_S
    await probe.answers()
    assert tables.asked == 2


async def test_a_process_asks_whether_it_can_write(embedded: World) -> None:
    service = SchedulerService("api", embedded.parts)
    await service.parts["writes"].answers()
    assert [name for name in embedded.recorded.names if name == "writes"]


async def test_a_poller_that_stands_still_is_not_ready(embedded: World) -> None:
    service = SchedulerService("worker", embedded.parts)
    assert service.worker is not None
    service._polling = True
    service.worker.calls.moved_at = service.worker.calls.now()
    await service.parts["poller"].answers()
    service.worker.calls.moved_at -= 3_600.0
    with pytest.raises(TryAgain, match="has not got on"):
        await service.parts["poller"].answers()
