"""kill -9 in the middle of a transfer, and files of any size in a bounded memory."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pm_ftp_world import started_with, world
from waiting import eventually

from headrace.testing.rig.ftp import FtpServer
from headrace.testing.rig.vsftpd import VsftpdServer
from headrace_pm.spool.spool import Spool

CHILD = Path(__file__).parent / "pm_download_child.py"
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
KILLS = 3 * TIMES
# Enough for all kills, however late a busy machine sees that some bytes came.
CONTENT = os.urandom(1 << 20) * 4 * KILLS
# In torture a file of 1 GB; a process that held it would need all of that.
BIG = 96 << 20 if TIMES == 1 else 1 << 30
PEAK_KB_MAX = 75_000


def child(spool: Path, port: int, path: bytes) -> subprocess.Popen[str]:
    command = [sys.executable, str(CHILD), str(spool), str(port), os.fsdecode(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def fetched(spool: Path) -> int:
    return sum(path.stat().st_size for path in spool.glob("*.part"))


async def test_a_killed_download_goes_on_where_it_was(ftp_site: FtpServer, tmp_path: Path) -> None:
    async with world(ftp_site) as there:
        path = there.put("a.dat", CONTENT)
        before = 0
        with started_with(ftp_site, {"bytes_per_s": "400000"}):
            for _ in range(KILLS):
                with child(tmp_path, ftp_site.port, path) as running:
                    await eventually(lambda seen=before: fetched(tmp_path) > seen, "more bytes are on disk", 30.0)
                    running.kill()
                before = fetched(tmp_path)
                assert before < len(CONTENT), "it was killed in the middle"
        with Spool(tmp_path, 2_000_000_000, spared=0) as spool:
            assert spool.used_bytes == len(CONTENT), "the room that it will need is kept for it"
        with child(tmp_path, ftp_site.port, path) as last:
            word, digest, count, _ = last.communicate(timeout=60)[0].split()
        assert (word, digest) == ("done", hashlib.blake2b(CONTENT, digest_size=16).hexdigest())
        assert int(count) == len(CONTENT) - before, "what was on disk is not fetched again"


@pytest.mark.parametrize("kind", [VsftpdServer])
async def test_memory_does_not_grow_with_the_file(kind: type[VsftpdServer], tmp_path: Path) -> None:
    with kind() as site:
        async with world(site) as there:
            path = there.put("big.dat", b"")
            os.truncate(there.disk / "big.dat", BIG)
            with child(tmp_path, site.port, path) as running:
                word, _, count, peak = running.communicate(timeout=300)[0].split()
            assert (word, int(count)) == ("done", BIG)
            assert int(peak) < PEAK_KB_MAX
