"""The spool: bounded, of one process, and as it was after a crash."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Self

import pytest

from headrace.errors import CallerError, OperatorError, TooLarge
from headrace.testing.twins import turns_red
from headrace_pm.ftp.errors import FileChanged, SpoolFull
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.part import PartialFile
from headrace_pm.spool.spool import Spool, SpooledFile

CONTENT = bytes(range(256)) * 40
STAMP = Stamp(len(CONTENT), "u20261118044151")
DIGEST = hashlib.blake2b(CONTENT, digest_size=16).hexdigest()


def spool_in(path: Path, bytes_max: int = 1_000_000, kind: type[Spool] = Spool) -> Spool:
    return kind(path, bytes_max, spared=0)


@pytest.fixture
def kind() -> type[Spool]:
    return Spool


def test_a_part_becomes_whole_and_says_what_it_is(tmp_path: Path) -> None:
    with spool_in(tmp_path) as spool:
        spool.reserve("7-1", STAMP.size)
        part = spool.part("7-1", STAMP)
        part.write(memoryview(CONTENT))
        whole = spool.finish("7-1", part)
        assert whole.path.read_bytes() == CONTENT
        assert (whole.stamp, whole.digest) == (STAMP, DIGEST)
        assert spool.used_bytes == STAMP.size
    with spool_in(tmp_path) as again:
        assert again.find("7-1") == whole
        assert again.files() == [whole]
        assert again.used_bytes == STAMP.size
        again.drop("7-1")
        assert again.find("7-1") is None
        assert again.used_bytes == 0


def test_a_part_is_continued_with_the_hash_of_all_of_it(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, kind=kind) as spool:
        first = spool.part("7-1", STAMP)
        first.write(memoryview(CONTENT[:1000]))
        first.close()
        with closing(spool.part("7-1", STAMP)) as second:
            assert second.resumed_at == 1000
            assert second.head == CONTENT[:1000]
            second.write(memoryview(CONTENT[1000:]))
            assert spool.finish("7-1", second).digest == DIGEST


def test_a_part_of_another_content_is_not_continued(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, kind=kind) as spool:
        old = spool.part("7-1", STAMP)
        old.write(memoryview(b"old"))
        old.close()
        with closing(spool.part("7-1", Stamp(STAMP.size, "u20261118050000"))) as part:
            assert part.length == 0
        assert len(list(tmp_path.glob("*.part"))) == 1


def test_more_than_was_told_is_not_kept(tmp_path: Path) -> None:
    with spool_in(tmp_path) as spool:
        part = spool.part("7-1", Stamp(4))
        with pytest.raises(FileChanged):
            part.write(memoryview(b"12345"))
        part.close()


def test_it_is_bounded_and_accepts_again_when_a_good_part_is_free(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, 1000, kind) as spool:
        for number in range(9):
            spool.reserve(f"{number}", 100)
        assert spool.accepting
        with pytest.raises(SpoolFull) as full:
            spool.reserve("9", 101)
        assert full.value.heals
        assert not spool.accepting, "900 of 1,000 and one that waits"
        spool.reserve("9", 100)
        spool.drop("9")
        spool.drop("8")
        assert spool.accepting, "800 of 1,000"
        for number in (8, 9):
            spool.reserve(f"{number}", 100)
        assert not spool.accepting
        spool.drop("9")
        assert not spool.accepting, "900 of 1,000: each that leaves would let one in"
        spool.drop("8")
        assert spool.accepting
        with pytest.raises(TooLarge, match="PM_SPOOL_MAX_BYTES"):
            spool.reserve("9", 1001)
        with pytest.raises(CallerError):
            spool.reserve("../9", 1)


def test_it_belongs_to_one_process(tmp_path: Path, kind: type[Spool]) -> None:
    with (
        spool_in(tmp_path, kind=kind),
        pytest.raises(OperatorError, match="running process"),
        spool_in(tmp_path, kind=kind),
    ):
        """It does not come so far."""
    with spool_in(tmp_path, kind=kind):
        """It was let go."""


def test_what_a_crash_left_is_removed_unless_it_is_wanted(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, kind=kind) as spool:
        for key in ("1-1", "2-1"):
            part = spool.part(key, STAMP)
            part.write(memoryview(CONTENT))
            part.close() if key == "2-1" else spool.finish(key, part)
    (tmp_path / "foreign.txt").write_text("not ours")
    with spool_in(tmp_path, kind=kind) as spool:
        assert spool.used_bytes == 2 * STAMP.size, "a part has the room that it will need"
        assert spool.keep_only({"1-1"}) == ["2-1"]
        assert spool.used_bytes == STAMP.size
        assert not list(tmp_path.glob("*.part"))
    assert (tmp_path / "foreign.txt").exists()


def test_parts_of_another_life_of_the_machine_are_not_trusted(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, kind=kind) as spool:
        part = spool.part("1-1", STAMP)
        part.write(memoryview(CONTENT))
        spool.finish("1-1", part)
        spool.part("2-1", STAMP).close()
    (tmp_path / "boot").write_text("another")
    with spool_in(tmp_path, kind=kind) as spool:
        assert not list(tmp_path.glob("*.part"))
        assert spool.find("1-1") is not None, "what is whole was synced"


def test_a_whole_file_that_was_cut_is_not_found(tmp_path: Path, kind: type[Spool]) -> None:
    with spool_in(tmp_path, kind=kind) as spool:
        part = spool.part("1-1", STAMP)
        part.write(memoryview(CONTENT))
        whole = spool.finish("1-1", part)
        os.truncate(whole.path, 10)
        assert spool.find("1-1") is None


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot be written"), spool_in(tmp_path / "file"):
        """It does not come so far."""


FULL_DISK = """
import json, sys
from pathlib import Path
from headrace_pm.ftp.errors import SpoolFull
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.part import PartialFile
from headrace_pm.spool.spool import Spool, SpooledFile

place, told = Path(sys.argv[1]), {}
with Spool(place, 100_000_000, spared=0) as spool:
    whole = spool.part("1-1", Stamp(500_000))
    whole.write(memoryview(bytes(500_000)))
    spool.finish("1-1", whole)
    try:
        spool.reserve("2-1", 2_000_000)
    except SpoolFull as full:
        told["before"] = str(full)
    # Somebody else fills the disk while we write.
    part = spool.part("2-1", Stamp(2_000_000))
    try:
        part.write(memoryview(bytes(2_000_000)))
    except SpoolFull as full:
        told["while"] = str(full)
    told["accepting"] = spool.accepting
    part.close()
    spool.drop("2-1")
    told["again"] = spool.accepting
    told["whole"] = spool.find("1-1") is not None
print(json.dumps(told))
"""


def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path) -> None:
    script = tmp_path / "full_disk.py"
    script.write_text(FULL_DISK)
    place = tmp_path / "disk"
    place.mkdir()
    steps = f"mount -t tmpfs -o size=1m headrace {place} && {sys.executable} {script} {place}"
    ran = subprocess.run(
        ["unshare", "--mount", "sh", "-c", steps], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert "no room for 2,000,000 bytes" in told["before"]
    assert "is full" in told["while"]
    assert (told["accepting"], told["again"], told["whole"]) == (False, True, True)


class Shared(Spool):
    """Takes a folder whoever has it."""

    def open(self) -> Self:
        self._look_around()
        return self


class Ticking(Spool):
    """Accepts as soon as anything fits."""

    def _judge(self) -> None:
        self._is_full = self.used_bytes >= self._bytes_max


class Believing(Spool):
    """Goes on with what an earlier life of the machine left."""

    def _remove_parts_of_another_boot(self) -> None:
        pass


class Forgetful(Spool):
    """Begins every part anew."""

    def part(self, key: str, stamp: Stamp) -> PartialFile:
        self.drop(key)
        return super().part(key, stamp)


class Mixing(Spool):
    """Goes on with a part whatever it is of."""

    def part(self, key: str, stamp: Stamp) -> PartialFile:
        before = self._parts.get(key)
        if before is not None:
            before.rename(self._directory / f"{key}~{stamp}.part")
        return super().part(key, stamp)


class Trusting(Spool):
    """Does not look how long a file is."""

    def find(self, key: str) -> SpooledFile | None:
        return self._whole.get(key)


class Thrifty(Spool):
    """Does not count what a crash left."""

    def _look_around(self) -> None:
        super()._look_around()
        self._reserved.clear()


@pytest.mark.parametrize(
    ("twin", "test"),
    [
        (Shared, test_it_belongs_to_one_process),
        (Ticking, test_it_is_bounded_and_accepts_again_when_a_good_part_is_free),
        (Believing, test_parts_of_another_life_of_the_machine_are_not_trusted),
        (Forgetful, test_a_part_is_continued_with_the_hash_of_all_of_it),
        (Mixing, test_a_part_of_another_content_is_not_continued),
        (Trusting, test_a_whole_file_that_was_cut_is_not_found),
        (Thrifty, test_what_a_crash_left_is_removed_unless_it_is_wanted),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_every_guard_of_the_spool_is_needed(twin: type[Spool], test: Callable[..., None], tmp_path: Path) -> None:
    def without_self(self: None, tmp_path: Path, kind: type[Spool]) -> None:
        test(tmp_path, kind)

    await turns_red(without_self, tmp_path=tmp_path, kind=twin)


def test_what_is_unpacked_takes_room_too(tmp_path: Path) -> None:
    """Twenty packed files at a time, each of which may grow to many times its size, fill a disk that holds them all."""
    with spool_in(tmp_path, 1_000) as spool:
        for key in ("a", "b"):
            spool.reserve(key, 100)
        first, second = spool.plain_room("a"), spool.plain_room("b")
        first(700)
        assert (spool.used_bytes, spool.accepting) == (900, True)
        with pytest.raises(SpoolFull, match="to unpack 200 bytes"):
            second(200)
        assert not spool.accepting, "nobody else begins"
        first(400)
        assert spool.used_bytes == 1_300, "one file may always be unpacked: it is the way to room"
        spool.drop_plain("a")
        second(200)
        assert (spool.used_bytes, spool.accepting) == (400, True)
        spool.drop("b")
        assert spool.used_bytes == 100
