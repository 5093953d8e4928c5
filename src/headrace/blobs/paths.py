"""Which paths a blob may have. They come from messages and requests of anybody: what could leave its place or break a
line of a log is refused, not repaired."""

from __future__ import annotations

import re
import unicodedata

from headrace.core.errors import CallerError

PATH_BYTES_MAX = 1_024
SEGMENT_BYTES_MAX = 250
"""Of a file: it is written under a slightly longer name first."""
_CONTROLS = frozenset(("Cc", "Cs", "Zl", "Zp"))
"""Control characters, half surrogates and the two separators that end a line."""
_UNFINISHED = re.compile(r"#\d+$")
"""How the client library names a file that it has not finished; it reads and removes none."""
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")


class WrongPath(CallerError):
    """A path that no blob can have."""


def check_path(path: str) -> str:
    """The path itself if it may be the key of a blob: relative, without `..`, without control characters.

    S3 would also take empty segments and `.`; the client library cannot ask for them, so they are refused here.
    """
    if path.startswith("/") or not (path.isprintable() or _CONTROLS.isdisjoint(map(unicodedata.category, path))):
        raise WrongPath("the path is absolute, or holds a control character")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise WrongPath("the path is empty, or holds an empty segment, . or ..")
    if len(path.encode()) > PATH_BYTES_MAX:
        raise WrongPath(f"the path is over PATH_BYTES_MAX = {PATH_BYTES_MAX:,}")
    return path


def check_file(path: str) -> str:
    """The path itself if it may also be a file's below a directory, on any system."""
    if check_path(path).startswith("~") or "\\" in path or _UNFINISHED.search(path):
        raise WrongPath(
            "the path begins with ~, holds a backslash or ends with # and a number, as no file of ours does"
        )
    if max(len(segment.encode()) for segment in path.split("/")) > SEGMENT_BYTES_MAX:
        raise WrongPath(f"a segment of the path is over SEGMENT_BYTES_MAX = {SEGMENT_BYTES_MAX}, which files have")
    return path


def split_bucket(path: str) -> tuple[str, str]:
    """The bucket that a path begins with, and the key in it."""
    bucket, _, key = check_path(path).partition("/")
    if not key:
        raise WrongPath(f"{path!r} names a bucket and no blob in it")
    if not _BUCKET.fullmatch(bucket):
        raise WrongPath(f"{path!r} begins with what is no name of a bucket")
    return bucket, key
