"""What jobs may reach: prefixes of URLs and of command lines. Without any, nothing is allowed.

A prefix ends where a part of what is done ends, and not within one: `http://shop/hooks` allows `http://shop/hooks/a`,
and neither `http://shop/hooks-old` nor `http://shop.example` or `http://shop@example`; `git pull` allows no
`git pull-all`. No path may climb by `..`.
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
    return any(_leads_there(asked, prefix) for prefix in prefixes if prefix)


def command_allowed(argv: Sequence[str], prefixes: Iterable[str]) -> bool:
    """Whether one of these prefixes allows this command line: its words are the first ones of the line, and of a path
    in the last of them the folders are. A relative program is searched in PATH."""
    return any(_begins(argv, prefix.split()) for prefix in prefixes if prefix.strip())


def _begins(argv: Sequence[str], words: Sequence[str]) -> bool:
    last = len(words) - 1
    if len(argv) <= last or _climbs(argv[0]) or list(argv[:last]) != words[:last]:
        return False
    return argv[last] == words[last] or (not _climbs(argv[last]) and _is_within(argv[last], words[last]))


def _leads_there(asked: SplitResult, prefix: str) -> bool:
    """A prefix without a host is for every host, and one without a port for every port of its host."""
    try:
        allowed = urlsplit(prefix)
        port = allowed.port
    except ValueError:
        return False
    if asked.scheme != allowed.scheme:
        return False
    if allowed.netloc and (asked.hostname != allowed.hostname or port not in (None, asked.port)):
        return False
    if allowed.query:
        return (asked.path, asked.query) == (allowed.path, allowed.query)
    return _is_within(asked.path or "/", allowed.path or "/")


def _is_within(path: str, folder: str) -> bool:
    """Whether a path is this one, or lies under it: compared by whole components."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def _climbs(path: str) -> bool:
    return ".." in unquote(path).replace("\\", "/").split("/")
