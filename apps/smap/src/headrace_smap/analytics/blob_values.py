"""The bytes of a blob → a JSON value, or the name of what is wrong with them.

UTF-8 with or without a byte order mark. Half a surrogate pair, which careless cutting of emoji leaves behind, is let
through: the text is repaired later, and the rest of the post is fine.
"""

from __future__ import annotations

import codecs
import json
from typing import Any, NoReturn

import msgspec

_decode = msgspec.json.Decoder().decode
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class BadBlob(Exception):
    """`rule` is the short name of what is wrong."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule


def read_blob(data: bytes) -> Any:
    """The JSON value in a blob; raises `BadBlob`."""
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    try:
        return _decode(data)
    except RecursionError:
        raise BadBlob("blob_json", "the JSON is nested too deep") from None
    except ValueError:
        return _read_again(data)


def _read_again(data: bytes) -> Any:
    """Slowly, to say what is wrong, and to take what is only unusual."""
    # JSON begins with two ASCII characters, so a NUL among its first bytes is a wider encoding.
    if data.startswith(_WIDE) or b"\x00" in data[:4]:
        raise BadBlob("blob_encoding", "the blob is not UTF-8 but a wider encoding")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadBlob("blob_encoding", f"the blob is not UTF-8: {error.reason} at byte {error.start}") from None
    if not text.strip():
        raise BadBlob("blob_truncated", "the blob is empty")
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise BadBlob("blob_json", "the JSON is nested too deep") from None
    except json.JSONDecodeError as error:
        is_short = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        rule = "blob_truncated" if is_short else "blob_json"
        raise BadBlob(rule, f"not JSON: {error.msg} at character {error.pos} of {len(text)}") from None
    except ValueError as error:
        raise BadBlob("blob_json", f"not JSON: {error}"[:200]) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
