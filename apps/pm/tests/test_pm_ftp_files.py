"""Files of a generated network on a real server: listed, judged by their first bytes, fetched, archived."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pm_ftp_world import MemoryRegister, world

from headrace.testing.rig.ftp import FtpServer
from headrace.testing.twins import turns_red
from headrace_pm.ftp.completeness import check_frame
from headrace_pm.ftp.downloads import Downloader, accept_all
from headrace_pm.ftp.errors import FileIncomplete
from headrace_pm.ftp.gate import Completeness, CompletenessCheck, ReadyGate
from headrace_pm.ftp.mover import Move, MoveOutcome, Mover
from headrace_pm.ftp.scanner import FolderScanner
from headrace_pm.ftp.seen import SeenNames
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.spool.part import HEAD_BYTES
from headrace_pm.spool.spool import Spool
from headrace_pm.wire.frame import HEAD_BYTES as FRAME_HEAD_BYTES

FILES = 12


@pytest.fixture(scope="module")
def contents() -> dict[str, bytes]:
    folder = GeneratedFolder(FolderPlan(files=FILES, counters=500, seed=7))
    return {(file := folder.file(number)).name: file.content() for number in range(FILES)}


def cuts(size: int) -> Iterator[int]:
    yield from (1, 7, 8, 9, 16, size // 2, size - 8, size - 1)


def test_every_cut_of_a_file_is_found_out(contents: dict[str, bytes]) -> None:
    for content in contents.values():
        assert check_frame(content[:HEAD_BYTES], len(content)) is Completeness.COMPLETE
        for size in cuts(len(content)):
            assert check_frame(content[: min(size, HEAD_BYTES)], size) is Completeness.INCOMPLETE
    assert check_frame(b"\0" * 64, 64) is Completeness.BAD
    assert check_frame(b"\x10\x05P\x01" * 16, 64) is Completeness.UNDECIDED
    assert HEAD_BYTES >= FRAME_HEAD_BYTES, "the longest table is seen"


async def walk(site: FtpServer, contents: dict[str, bytes], spool_dir: Path, check: CompletenessCheck) -> None:
    """Three files are half there and hold still; the others are whole."""
    async with world(site) as there:
        register = MemoryRegister()
        scanner = FolderScanner(there.folder, there.pool, SeenNames(None, register), register, ReadyGate(0.0))
        halves = list(contents)[:3]
        for name, content in contents.items():
            there.put(name, content[: len(content) // 2] if name in halves else content)
        await scanner.scan()
        found = {file.text: file for file in (await scanner.scan()).new}
        assert set(found) == set(contents)
        register.rows.update((name, file.stamp) for name, file in found.items())
        await scanner.registered(list(found.values()))
        with Spool(spool_dir, 100_000_000, spared=0) as spool:
            downloader, mover = Downloader(there.pool, spool, check), Mover(there.pool)
            for number, (name, file) in enumerate(found.items()):
                if name in halves:
                    with pytest.raises(FileIncomplete):
                        await downloader.fetch(str(number), there.at(name), file.stamp)
                    continue
                whole = await downloader.fetch(str(number), there.at(name), file.stamp)
                assert whole.digest == hashlib.blake2b(contents[name], digest_size=16).hexdigest()
                moved = await mover.move(Move(there.path, file.name, whole.stamp))
                assert moved.outcome is MoveOutcome.MOVED
            assert there.names("ClickHouse/Done") == set(contents) - set(halves)
            again = await scanner.scan()
            assert (again.new, again.changed) == ((), ()), "halves wait until they are listed differently"
            there.put(halves[0], contents[halves[0]])
            await scanner.scan()
            assert [file.text for file in (await scanner.scan()).changed] == [halves[0]]


async def test_halves_wait_and_the_rest_is_archived(
    ftp_site: FtpServer, contents: dict[str, bytes], tmp_path: Path
) -> None:
    await walk(ftp_site, contents, tmp_path, check_frame)


async def test_without_a_look_at_the_frame_a_stalled_upload_is_taken(
    ftp_site: FtpServer, contents: dict[str, bytes], tmp_path: Path
) -> None:
    async def taken(self: None) -> None:
        await walk(ftp_site, contents, tmp_path, accept_all)

    await turns_red(taken)
