"""Texts as they may be kept and shown: without passwords and what looks like a secret, and within bounds.

A value is redacted by what stands before it, because a secret looks like anything else. So a line of source code that
assigns a token loses what it assigns: better too much than too little. No pattern begins with a repetition: a long line
costs its length and not its square.
"""

from __future__ import annotations

import re

_HIDDEN = "***"
_URL_PASSWORD = re.compile(r"(://[^\s:/@?]{0,256}):\S{0,4096}@")
_BEARER = re.compile(r"(?i)\b(bearer|basic)( {1,4})[\w.~+/=-]{8,}")
_JSON_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*")
_NAMED = re.compile(
    r"(?i)(password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization)"
    r"(['\"]?\]? {0,4}(?:=|:) {0,4})"
    r"(\"[^\"\n]*\"|'[^'\n]*'|(?!Bearer|Basic)[^\s,;&'\"\]})]+)"
)
HEAD_SHARE = 3
"""Of what is kept of a long text a third is its beginning; the end of a traceback says what went wrong."""


def redacted(url: str) -> str:
    """The URL as it may be shown: without its password, wherever that stands."""
    if "://" not in url:
        return url
    scheme, rest = url.split("://", 1)
    # A password may hold any character, even @ and /: everything up to the last @ is taken to belong to it.
    rest = re.sub(r"^([^:/@?]*):.*@", rf"\1:{_HIDDEN}@", rest)
    return f"{scheme}://" + re.sub(r"(?i)([?&](?:ssl)?password=)[^&#]*", rf"\1{_HIDDEN}", rest)


def redacted_text(text: str) -> str:
    """A text for people without what looks like a secret in it."""
    text = _URL_PASSWORD.sub(rf"\1:{_HIDDEN}@", text)
    text = _NAMED.sub(rf"\1\2{_HIDDEN}", text)
    text = _BEARER.sub(rf"\1\2{_HIDDEN}", text)
    return _JSON_WEB_TOKEN.sub(_HIDDEN, text)


def clipped(text: str, bytes_max: int) -> str:
    """At most so many bytes of UTF-8: of a longer text the beginning and the end, and between them how much is missing.

    What cannot be encoded at all is replaced, so that any store can keep it.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= bytes_max:
        return encoded.decode()
    mark = f"\n… {len(encoded) - bytes_max:,} bytes and more left out …\n"
    room = max(0, bytes_max - len(mark.encode()))
    head = encoded[: room // HEAD_SHARE].decode("utf-8", "ignore")
    tail = encoded[len(encoded) - (room - room // HEAD_SHARE) :].decode("utf-8", "ignore")
    return f"{head}{mark}{tail}"
