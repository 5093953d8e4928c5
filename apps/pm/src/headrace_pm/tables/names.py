"""Names of files and keys as the table of files holds them.

A column of keys is ascii, so other characters are percent-encoded. A file's name is what the server sent: text if it is
UTF-8, and bytes that are not are %XX. A percent sign before two hexadecimal digits is encoded as well, so that two
names never become one. Nothing is ever cut.
"""

from __future__ import annotations

import re

from headrace.errors import TooLarge

FILE_NAME_MAX = 255
KEY_MAX = {"system_type": 20, "ftp_server_key": 100, "ftp_path": 500}
_LOOKS_ENCODED = re.compile(r"%(?=[0-9A-F]{2})")
_ENCODED = re.compile(rb"%([0-9A-F]{2})")


def stored_name(raw: bytes) -> str:
    """`TooLarge` if the column cannot hold it."""
    text = raw.decode("utf-8", "surrogateescape")
    text = _LOOKS_ENCODED.sub("%25", text)
    text = "".join(f"%{ord(each) - 0xDC00:02X}" if 0xDC80 <= ord(each) <= 0xDCFF else each for each in text)
    return _fitting(text, FILE_NAME_MAX, "the name of a file")


def raw_name(stored: str) -> bytes:
    """The name as the server knows it."""
    return _ENCODED.sub(lambda found: bytes((int(found[1], 16),)), stored.encode())


def stored_key(column: str, text: str) -> str:
    """One of the key columns; trailing spaces, which an ascii comparison does not see, are encoded too."""
    bare = text.rstrip(" ")
    text = _LOOKS_ENCODED.sub("%25", bare) + "%20" * (len(text) - len(bare))
    encoded = "".join(each if each.isascii() else "".join(f"%{b:02X}" for b in each.encode()) for each in text)
    return _fitting(encoded, KEY_MAX[column], column)


def _fitting(text: str, count_max: int, what: str) -> str:
    if len(text) > count_max:
        raise TooLarge(f"{what} has {len(text)} characters, and {count_max} are the most")
    return text
