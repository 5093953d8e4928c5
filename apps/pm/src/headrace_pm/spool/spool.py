"""A bounded folder of fetched files. What is in it survives a crash, and says by its name what it is.

    KEY~STAMP~DIGEST.whole      fetched, checked, synced; KEY is the caller's, one per revision of a file
    KEY~STAMP.part              being fetched; a later try goes on where it ends, if the file is still the same
    KEY.plain                   what a packed file unpacks to, for as long as it is read
    lock, boot                  one process per folder; and in which life of the machine it was written

A whole file is synced before it gets its name; the folder is not, because a name that a power cut takes away costs one
more transfer and no data: the server has the file until its rows are in both sinks. A part is not synced: a killed
process leaves its bytes with the kernel, so it can be continued. After a power cut it may have holes: parts of another
boot are removed. The folder is read once; after that the spool knows what is in it.

Room is reserved before anything is fetched, and for each piece before it is unpacked; one file may always be unpacked,
because it frees its room when it is done. When the limit is reached the spool stops accepting, and it starts again
only when a good part of it is free: that is the back-pressure on claims.
"""

from __future__ import annotations

import fcntl
import os
import re
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from headrace.errors import CallerError, OperatorError, TooLarge, writing_to
from headrace_pm.ftp.errors import SpoolFull
from headrace_pm.ftp.stamps import Stamp
from headrace_pm.spool.part import PartialFile, room_for

# Claims go on when a fifth is free: with less, each file that leaves would let one in, and both sides would tick along.
ACCEPT_AGAIN_BELOW = 0.8
# Other programs on the same disk are not to find it full because of us.
DISK_BYTES_SPARED = 16 * 1024 * 1024
_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}")
_WHOLE = re.compile(r"([A-Za-z0-9_-]{1,80})~([0-9a-z]+)~([0-9a-f]{32})\.whole")
_PART = re.compile(r"([A-Za-z0-9_-]{1,80})~([0-9a-z]+)\.part")
PLAIN = ".plain"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class SpooledFile:
    """A whole file in the spool."""

    key: str
    path: Path
    stamp: Stamp
    digest: str


class Spool:
    """One folder of one process. Its methods may be called from any thread."""

    def __init__(self, directory: Path, bytes_max: int, spared: int = DISK_BYTES_SPARED) -> None:
        self._directory, self._bytes_max, self._spared = directory, bytes_max, spared
        self._lock = threading.Lock()
        self._reserved: dict[str, int] = {}
        self._whole: dict[str, SpooledFile] = {}
        self._parts: dict[str, Path] = {}
        self._plain: dict[str, int] = {}
        self._is_full = False
        self._held = -1

    def open(self) -> Self:
        """Take the folder, or `OperatorError` if another process has it, and remove what a crash left behind."""
        with writing_to(self._directory, "name another folder in PM_SPOOL_DIR"):
            self._directory.mkdir(parents=True, exist_ok=True)
            self._held = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._held)
            raise OperatorError(
                f"{self._directory} is the spool of a running process", "give each process a PM_SPOOL_DIR of its own"
            ) from None
        self._remove_parts_of_another_boot()
        self._look_around()
        self._judge()
        return self

    def close(self) -> None:
        """Let the folder go; its files stay."""
        if self._held >= 0:
            os.close(self._held)
            self._held = -1

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def used_bytes(self) -> int:
        """What is there and what is promised."""
        return sum(self._reserved.values()) + sum(self._plain.values())

    @property
    def file_count(self) -> int:
        return len(self._reserved)

    @property
    def accepting(self) -> bool:
        """Whether new work may be claimed."""
        with self._lock:
            self._judge()
            return not self._is_full

    def reserve(self, key: str, size: int) -> None:
        """Promise room for a file; again for the same key changes the promise. `SpoolFull` if there is none now,
        `TooLarge` if there never will be."""
        if not _KEY.fullmatch(key):
            raise CallerError(f"{key!r} is no key of a spooled file", "letters, digits, _ and -, at most 80")
        if size > self._bytes_max:
            raise TooLarge(f"a file of {size:,} bytes does not fit into PM_SPOOL_MAX_BYTES = {self._bytes_max:,}")
        with self._lock:
            others = self.used_bytes - self._reserved.get(key, 0)
            if others + size > self._bytes_max:
                self._is_full = True
                raise SpoolFull(f"the spool has no room for {size:,} bytes", "it has again when files are done")
            self._check_disk(size)
            self._reserved[key] = size
            self._judge()

    def find(self, key: str) -> SpooledFile | None:
        """The whole file of a key, if it is here; one that is not as long as it was does not count."""
        found = self._whole.get(key)
        if found is None or not found.path.exists() or found.path.stat().st_size != found.stamp.size:
            return None
        return found

    def files(self) -> list[SpooledFile]:
        """All whole files."""
        return sorted(self._whole.values(), key=lambda file: file.key)

    def part(self, key: str, stamp: Stamp) -> PartialFile:
        """What is there of a file so far, to go on with. A part of another size or moment is removed."""
        path = self._directory / f"{key}~{stamp}.part"
        before = self._parts.get(key)
        if before is not None and before != path:
            before.unlink(missing_ok=True)
        self._parts[key] = path
        return PartialFile(path, stamp)

    def finish(self, key: str, part: PartialFile) -> SpooledFile:
        """Make a part the whole file of its key: synced, then renamed."""
        digest = part.close_synced()
        path = self._directory / f"{key}~{part.stamp}~{digest}.whole"
        with room_for(path):
            os.rename(part.path, path)
        self._parts.pop(key, None)
        self._remove_whole(key, path)
        self._whole[key] = SpooledFile(key, path, part.stamp, digest)
        return self._whole[key]

    def plain_path(self, key: str) -> Path:
        """Where the file of a key may be unpacked to. It goes with its file, and at the next start."""
        return self._directory / f"{key}{PLAIN}"

    def plain_room(self, key: str) -> Callable[[int], None]:
        """What is called with the size of each piece before it is unpacked: `SpoolFull` if there is no room now."""
        with self._lock:
            self._plain[key] = 0

        def grow(size: int) -> None:
            with self._lock:
                is_alone = not any(self._plain[each] for each in self._plain if each != key)
                if self.used_bytes + size > self._bytes_max and not is_alone:
                    self._is_full = True
                    raise SpoolFull(f"the spool has no room to unpack {size:,} bytes", "it has when files are done")
                self._check_disk(size)
                self._plain[key] += size
                self._judge()

        return grow

    def drop_plain(self, key: str) -> None:
        """Remove what the file of a key was unpacked to."""
        self.plain_path(key).unlink(missing_ok=True)
        with self._lock:
            self._plain.pop(key, None)
            self._judge()

    def drop(self, key: str) -> None:
        """Remove what is there of a key, and its promise."""
        self.drop_plain(key)
        part = self._parts.pop(key, None)
        if part is not None:
            part.unlink(missing_ok=True)
        self._remove_whole(key)
        with self._lock:
            self._reserved.pop(key, None)
            self._judge()

    def keep_only(self, keys: Collection[str]) -> list[str]:
        """After a start: remove everything that nobody wants any more; which keys that were."""
        gone = [key for key in list(self._reserved) if key not in keys]
        for key in gone:
            self.drop(key)
        return gone

    def _look_around(self) -> None:
        for path in self._directory.iterdir():
            if found := _WHOLE.fullmatch(path.name):
                self._whole[found[1]] = SpooledFile(found[1], path, Stamp.read(found[2]), found[3])
            elif found := _PART.fullmatch(path.name):
                self._parts[found[1]] = path
            else:
                if path.suffix == PLAIN:
                    path.unlink(missing_ok=True)
                continue
            # A part has the room that it will need.
            self._reserved[found[1]] = max(self._reserved.get(found[1], 0), Stamp.read(found[2]).size)

    def _remove_whole(self, key: str, unless: Path | None = None) -> None:
        found = self._whole.pop(key, None)
        if found is not None and found.path != unless:
            found.path.unlink(missing_ok=True)

    def _judge(self) -> None:
        share = self.used_bytes / self._bytes_max if self._bytes_max else 1.0
        is_disk_full = self._disk_free() <= self._spared
        if share >= 1.0 or is_disk_full:
            self._is_full = True
        elif share <= ACCEPT_AGAIN_BELOW:
            self._is_full = False

    def _check_disk(self, size: int) -> None:
        if self._disk_free() < size + self._spared:
            self._is_full = True
            raise SpoolFull(f"the disk of {self._directory} has no room for {size:,} bytes", "free some room")

    def _disk_free(self) -> int:
        found = os.statvfs(self._directory)
        return found.f_bavail * found.f_frsize

    def _remove_parts_of_another_boot(self) -> None:
        mark, now = self._directory / "boot", BOOT_ID.read_text().strip() if BOOT_ID.exists() else "unknown"
        if not mark.exists() or mark.read_text() != now:
            for path in self._directory.glob("*.part"):
                path.unlink(missing_ok=True)
            with room_for(mark):
                mark.write_text(now)
