"""Redis's append-only file as a power cut would leave it: without what was written in the last second or so.

Since Redis 7 the file is a directory: a base, and increments that are replayed on it in the order of a manifest (more
than one while the base is being rewritten). With `aof-timestamp-enabled` an increment says between two commands
`#TS:<unix time>` whenever a second has passed. These are the only places to cut: a place between two commands of a
transaction would be none. A base is left alone: it was synced before the manifest named it. An increment begins without
a mark if its base was made in the same second, so the moment that stands in the base counts as its first mark.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MARK = b"#TS:"
# The field of an RDB file that says when it was begun: a name of five letters and a number of 32 bits.
MADE_AT = re.compile(rb"\xfa\x05ctime\xc2(.{4})", re.DOTALL)
HEAD_BYTES = 512


def cut_back(folder: Path, since: int) -> None:
    """Forget every command that was appended in the second `since` or later."""
    late = _made_at(folder) >= since
    for path in _files(folder, "i"):
        cut = 0 if late else _begin_of(path.read_bytes(), since)
        if cut is not None:
            os.truncate(path, cut)
            late = True


def _files(folder: Path, kind: str) -> list[Path]:
    found = []
    for manifest in folder.glob("*.manifest"):
        for line in manifest.read_text().splitlines():
            words = line.split()
            told = dict(zip(words[::2], words[1::2], strict=False))
            if told.get("type") == kind:
                found.append(folder / told["file"])
    return found


def _made_at(folder: Path) -> int:
    """The second in which the base was begun; 0 for a base of commands, after which every increment has its mark."""
    for path in _files(folder, "b"):
        with path.open("rb") as base:
            found = MADE_AT.search(base.read(HEAD_BYTES))
        if found:
            return int.from_bytes(found[1], "little")
    return 0


def _begin_of(log: bytes, since: int) -> int | None:
    """Where the first mark of the second `since` or a later one stands; None if everything is older.

    The commands are walked through by their lengths, because a value may look like a mark. A last command that is not
    complete is no concern of ours: Redis drops it itself.
    """
    at = 0
    while (end := log.find(b"\r\n", at)) >= 0:
        if log.startswith(MARK, at):
            if int(log[at + len(MARK) : end]) >= since:
                return at
        elif log.startswith(b"$", at):
            end += int(log[at + 1 : end]) + 2
        at = end + 2
    return None
