"""Where a store file must not lie, and who must not open it.

POSIX locks belong to the process: when a second SQLite library in the same process closes the file, it drops the
locks of the first, and two processes may write at once. So the standard library's `sqlite3` is refused for a file that
is open here.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

from headrace.core.errors import UnsafeStore

NETWORK_KINDS = {"nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs", "ncpfs", "ceph", "lustre"} | {
    "glusterfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
}

_open_files: Counter[str] = Counter()
_hooked: list[bool] = []


def check_place(path: str) -> None:
    """Refuse a directory that is not there, cannot be written, or lies on a network file system."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise UnsafeStore(f"the directory {folder} does not exist", f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise UnsafeStore(f"the directory {folder} cannot be written", "choose a directory that you may write to")
    kind = file_system(folder)
    if kind in NETWORK_KINDS:
        raise UnsafeStore(
            f"{path} lies on a network file system ({kind}), where SQLite's locks cannot be relied on",
            "use a local disk, or --store postgresql://…",
        )


def file_system(folder: Path, mounts: str = "/proc/self/mountinfo") -> str:
    """The kind of file system a directory lies on; empty if it cannot be known."""
    try:
        lines = Path(mounts).read_text("utf-8").splitlines()
    except OSError:
        return ""
    best, kind = "", ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = left.split(" ")[4].encode().decode("unicode_escape")
        inside = str(folder) == point or str(folder).startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split(" ")[0]
    return kind


def opened(path: str) -> None:
    """From now on the standard library's `sqlite3` must keep away from this file."""
    _open_files[os.path.realpath(path)] += 1
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_refuse_second_library)


def closed(path: str) -> None:
    _open_files[os.path.realpath(path)] -= 1


def _refuse_second_library(event: str, arguments: tuple[object, ...]) -> None:
    if event != "sqlite3.connect" or not arguments:
        return
    name = arguments[0]
    if isinstance(name, bytes):
        name = os.fsdecode(name)
    if not isinstance(name, str | os.PathLike):
        return
    path = os.fspath(name)
    if isinstance(path, str) and path.startswith("file:"):
        path = path[5:].partition("?")[0]
    if _open_files[os.path.realpath(path)] > 0:
        raise UnsafeStore(
            f"{path} is open as a headrace store in this process; sqlite3 would drop its locks",
            "read it with headrace.connect(url), or from another process",
        )
