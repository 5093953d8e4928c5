"""What a client may order, and what is refused before anything is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from pydantic import BaseModel, ConfigDict, Field, field_validator

from headrace.http import Problem
from headrace_matching.phases.jobs import JobOrder

WISH_BYTES_MAX = 65_536
"""Query and sources travel with an event."""
URL_CHARS_MAX = 2_048


class _Source(BaseModel):
    """What else is said of a source is for the collector."""

    model_config = ConfigDict(extra="allow")


class ExternalSource(_Source):
    """Somebody else collects, and announces it."""

    type: Literal["external"]


class FolderSource(_Source):
    type: Literal["folder"]
    path: Annotated[str, Field(min_length=1, max_length=4_096)]


class FeedSource(_Source):
    type: Literal["feed"]
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARS_MAX)]

    @field_validator("url")
    @classmethod
    def _is_web(cls, url: str) -> str:
        return web_address(url)


class SimulatedSource(_Source):
    type: Literal["simulated"]
    seed: int | str


Source = Annotated[
    ExternalSource | FolderSource | FeedSource | SimulatedSource, Field(discriminator="type", title="Source")
]


class JobRequest(BaseModel):
    """The body of `POST /jobs`."""

    query: Any = None
    products: Source
    videos: Source


def web_address(url: str) -> str:
    """The address itself if it is one of the web."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()
    except ValueError:
        good = False
    if not good:
        raise ValueError("is no http or https address")
    return url


def understood(request: JobRequest, folders: Sequence[str]) -> JobOrder:
    """The order, or a 422 that says what is wrong with it."""
    sources = {"products": request.products, "videos": request.videos}
    for name, source in sources.items():
        if isinstance(source, FolderSource):
            _check_folder(name, source, folders)
    order = JobOrder(request.query, *(source.model_dump(mode="json") for source in sources.values()))
    size = len(msgspec.json.encode(order.wish))
    if size > WISH_BYTES_MAX:
        raise _invalid("query", f"query and sources have {size:,} bytes, over WISH_BYTES_MAX = {WISH_BYTES_MAX:,}")
    if _holds_nul(order.wish):
        raise _invalid("query", "query and sources must not hold the character NUL")
    return order


def _check_folder(name: str, source: FolderSource, folders: Sequence[str]) -> None:
    """Only below a directory that the operator has named, whatever `..` and links say."""
    where = f"{name}.path"
    if not folders:
        raise _invalid(where, "no folder is allowed here: an operator names them by MATCHING_FOLDERS")
    try:
        path = Path(source.path)
        inside = path.is_absolute() and any(path.resolve().is_relative_to(Path(folder).resolve()) for folder in folders)
    except (OSError, ValueError, RuntimeError):
        inside = False
    if not inside:
        raise _invalid(where, "is not below a directory of MATCHING_FOLDERS")


def _holds_nul(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_holds_nul(part) for pair in value.items() for part in pair)
        case list():
            return any(map(_holds_nul, value))
    return False


def _invalid(where: str, detail: str) -> Problem:
    return Problem(422, "invalid", f"{where}: {detail}", errors=[{"where": where, "detail": detail}])
