"""A file that is being fetched: written, counted and hashed as its bytes come."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace_pm.ftp.errors import FileChanged, SpoolFull, SpoolUnusable
from headrace_pm.ftp.stamps import Stamp

HASH_BYTES = 16
READ_BYTES = 1024 * 1024
# As much as a check of the first bytes may ask for: a table of 512 segments and more.
HEAD_BYTES = 4096
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class PartialFile:
    """What is there so far. `write` may be called from any thread, one at a time."""

    def __init__(self, path: Path, stamp: Stamp) -> None:
        self.path, self.stamp = path, stamp
        self._hash = hashlib.blake2b(digest_size=HASH_BYTES)
        self.head = b""
        self.length = 0
        with room_for(path):
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - it lives as long as this
        self._read_again()
        self.resumed_at = self.length

    def write(self, piece: memoryview) -> None:
        """The next bytes. More than the file should have is not kept: it is growing."""
        if self.length + len(piece) > self.stamp.size:
            raise FileChanged(f"{self.path.name} is longer than the {self.stamp.size:,} bytes that were told")
        done = 0
        with room_for(self.path):
            while done < len(piece):
                done += self._file.write(piece[done:])
        self._count(piece)

    def close(self) -> None:
        """Leave what is there, for a later try."""
        self._file.close()

    def discard(self) -> None:
        """Remove it: it is of no use."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def close_synced(self) -> str:
        """It is whole: bring it to the disk. Its hash."""
        with room_for(self.path):
            os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def _read_again(self) -> None:
        """The hash needs the bytes of earlier tries."""
        self._file.seek(0)
        while piece := self._file.read(READ_BYTES):
            self._count(memoryview(piece))
        if self.length > self.stamp.size:
            self._file.truncate(0)
            self._hash, self.head, self.length = hashlib.blake2b(digest_size=HASH_BYTES), b"", 0

    def _count(self, piece: memoryview) -> None:
        self._hash.update(piece)
        if len(self.head) < HEAD_BYTES:
            self.head += bytes(piece[: HEAD_BYTES - len(self.head)])
        self.length += len(piece)


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """A full disk is `SpoolFull`; what else the disk refuses is for the operator. Both heal."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise SpoolFull(f"the disk of {path.parent} is full", "free some room; work goes on by itself") from None
        raise SpoolUnusable(f"{path} cannot be used: {error.strerror}", "look at PM_SPOOL_DIR") from None
