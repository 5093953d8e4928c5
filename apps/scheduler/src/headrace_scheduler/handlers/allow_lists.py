"""What jobs may reach: prefixes of URLs and of command lines. Without any, nothing is allowed.

A prefix is compared with what is really done, not with how it is written: `http://shop` does not allow
`http://shop.example` or `http://shop@example`, and no path may climb by `..`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit


class AllowListed(ABC):
    """A handler that does only what a list allows: that of its worker decides."""

    setting: str
    allowed: tuple[str, ...]

    @abstractmethod
    def refusal(self, payload: Mapping[str, Any]) -> str:
        """What is not allowed of a payload that was checked, in words; "" if all of it is."""


def url_allowed(url: str, prefixes: Iterable[str]) -> bool:
    """Whether one of these prefixes allows a call of this URL."""
    try:
        asked = urlsplit(url)
        _ = asked.port
    except ValueError:
        return False
    if asked.scheme not in ("http", "https") or "@" in asked.netloc or _climbs(asked.path):
        return False
    return any(url.startswith(prefix) and _same_host(asked, prefix) for prefix in prefixes if prefix)


def command_allowed(argv: Sequence[str], prefixes: Iterable[str]) -> bool:
    """Whether one of these prefixes allows this command line; a relative program is searched in PATH."""
    line = " ".join(argv)
    return not _climbs(argv[0]) and any(line.startswith(prefix) for prefix in prefixes if prefix)


def _same_host(asked: SplitResult, prefix: str) -> bool:
    """A text can begin like another host's name or another port; a prefix without a host is for every host."""
    try:
        allowed = urlsplit(prefix)
        port = allowed.port
    except ValueError:
        return False
    if not allowed.netloc:
        return True
    return asked.hostname == allowed.hostname and port in (None, asked.port)


def _climbs(path: str) -> bool:
    return ".." in unquote(path).replace("\\", "/").split("/")
