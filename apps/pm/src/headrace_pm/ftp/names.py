"""Names of files are bytes; tables hold texts. One and only one text belongs to a name.

A name that is UTF-8 stands for itself. Other bytes are written `%XX`, and so is a `%` behind which two hexadecimal
digits happen to stand: without that, the byte E9 and the three characters `%E9` would be one file. Paths, server keys
and system types are ASCII in the tables, so there every byte beyond it is written that way, and so are spaces at the
end, which a comparison of such columns does not see.

What cannot be a name on the wire (CR, LF and NUL end or corrupt an FTP command, `/` separates) or in the tables (more
than 255 characters) is refused with its reason. Nothing is ever cut: a cut name is another file.
"""

from __future__ import annotations

import re
from enum import StrEnum

from headrace.errors import CallerError

NAME_CHARS_MAX = 255
PATH_CHARS_MAX = 500
SHOWN_MAX = 60
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_AMBIGUOUS = re.compile("%(?=[0-9A-Fa-f]{2})")
# Nearly all names are, and a folder has thousands.
_PLAIN = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_. -]{0,250}")
_BREAKS = re.compile(rb"[\r\n\0]")
_UNFIT_TO_SHOW = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class NameFault(StrEnum):
    """Why something that was listed cannot be a name."""

    EMPTY = "empty"
    DOTS = "dots"
    LINE_BREAK = "line_break"
    SEPARATOR = "separator"
    TOO_LONG = "too_long"
    UNREADABLE = "unreadable"
    """A line of a listing that says nothing of a file."""


class NameRefused(CallerError):
    """A name that cannot be kept or sent."""


def fault_of(name: bytes) -> NameFault | None:
    """What is wrong with a name; None: nothing."""
    if _PLAIN.fullmatch(name):
        return None
    if not name:
        return NameFault.EMPTY
    if name in (b".", b".."):
        return NameFault.DOTS
    if _BREAKS.search(name):
        return NameFault.LINE_BREAK
    if b"/" in name:
        return NameFault.SEPARATOR
    if len(name) > NAME_CHARS_MAX // 3 and len(text_of_name(name)) > NAME_CHARS_MAX:
        return NameFault.TOO_LONG
    return None


def text_of_name(name: bytes) -> str:
    """As `file_name` keeps it."""
    if b"%" not in name:
        try:
            return name.decode()
        except UnicodeDecodeError:
            pass
    return _AMBIGUOUS.sub("%25", name.decode("utf-8", "surrogateescape")).translate(_LONE_BYTES)


def bytes_of_name(text: str) -> bytes:
    """The name that a `file_name` stands for."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode("utf-8", "surrogateescape"))


def ascii_text(text: str) -> str:
    """As `system_type`, `ftp_server_key` and `ftp_path` keep it."""
    if text.isascii() and "%" not in text and not text.endswith(" "):
        return text
    bare = text.rstrip(" ")
    marked = _AMBIGUOUS.sub("%25", bare)
    kept = (each if each.isascii() else _percent(each.encode("utf-8", "surrogateescape")) for each in marked)
    return "".join(kept) + _percent(b" ") * (len(text) - len(bare))


def bytes_of_path(text: str) -> bytes:
    """The path on the server that an `ftp_path` stands for. One that could not be sent is refused."""
    path = bytes_of_name(text)
    if not path or _BREAKS.search(path) or len(text) > PATH_CHARS_MAX:
        raise NameRefused(
            f"{shown(text)} cannot be a folder on a server",
            f"a path has 1 to {PATH_CHARS_MAX} characters and no line break",
        )
    return path


def joined(folder: bytes, *names: bytes) -> bytes:
    """The path of something inside of a folder."""
    return b"/".join((folder.rstrip(b"/"), *names))


def shown(name: str | bytes, chars_max: int = SHOWN_MAX) -> str:
    """For logs and messages: on one line, without anything that a terminal would obey, and not longer than a line."""
    text = text_of_name(name) if isinstance(name, bytes) else name
    clean = _UNFIT_TO_SHOW.sub(lambda found: _percent(found[0].encode()), text)
    return clean if len(clean) <= chars_max else f"{clean[:chars_max]}…"


def _percent(raw: bytes) -> str:
    return "".join(f"%{each:02X}" for each in raw)


_LONE_BYTES = {0xDC00 + each: f"%{each:02X}" for each in range(0x80, 0x100)}
