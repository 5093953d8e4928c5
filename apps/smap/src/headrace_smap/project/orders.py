"""What a client orders, checked with words that help. What the collector would refuse later is refused here at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import msgspec
from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from headrace.errors import InvalidPayload, TooLarge
from headrace_smap.collector.task_plan import (
    DAYS_MAX,
    KEYWORD_CHARS_MAX,
    KEYWORDS_MAX,
    TARGETS_MAX,
    URL_CHARS_MAX,
    OrderRefused,
    read_order,
    split,
)
from headrace_smap.collector.wishes import ADDRESS, WAY_OUT, CrawlWishes, unserved_words
from headrace_smap.receivers import Receivers

NAME_CHARS_MAX = 200
PROJECT_CHARS_MAX = 100
TAKEN = ("stream",)
"""Names of routes beside projects."""
POSTS_MAX = 100_000_000
ORDER_BYTES_MAX = 200_000
"""An order is the body of an event, and a bus has its limit."""
_PROJECT = rf"^[A-Za-z0-9_-]{{1,{PROJECT_CHARS_MAX}}}$"

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _written_day(given: object) -> object:
    """A number is no day, and a moment is more than one."""
    if not isinstance(given, str) or not _DAY.fullmatch(given):
        raise ValueError("write a day such as 2025-01-31")
    return given


Keyword = Annotated[str, Field(max_length=KEYWORD_CHARS_MAX)]
Day = Annotated[date, BeforeValidator(_written_day)]


class OrderedTarget(BaseModel):
    """Where to look: an address, or a platform to search."""

    model_config = ConfigDict(extra="forbid")

    platform: Annotated[str, Field(max_length=40)] = ""
    url: Annotated[str, Field(max_length=URL_CHARS_MAX)] = ""


class ProjectOrder(BaseModel):
    """A project to be. `date_range` is its first and its last day; without one any time will do."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "example": {
                "keywords": ["VinFast", "VF3"],
                "targets": [{"platform": "feed", "url": "https://vnexpress.net/rss/kinh-doanh.rss"}],
                "date_range": ["2025-01-01", "2025-02-01"],
            }
        },
    )

    keywords: Annotated[list[Keyword], Field(min_length=1, max_length=KEYWORDS_MAX)]
    targets: Annotated[list[OrderedTarget], Field(max_length=TARGETS_MAX)] = []
    date_range: tuple[Day, Day] | None = None
    name: Annotated[str, Field(max_length=NAME_CHARS_MAX)] | None = None
    posts_max: Annotated[int, Field(ge=1, le=POSTS_MAX)] | None = None
    receivers: Receivers | None = None
    id: Annotated[str, Field(pattern=_PROJECT)] | None = Field(None, validation_alias=AliasChoices("id", "project_id"))

    @model_validator(mode="before")
    @classmethod
    def _known(cls, given: Any) -> Any:
        """A field that nobody reads is a misspelt one."""
        known = (*cls.model_fields, "project_id")
        if isinstance(given, dict) and (unknown := sorted(set(given) - set(known))):
            raise ValueError(f"{unknown[0][:60]!r} is no field of a project; there are {', '.join(known)}")
        return given

    @model_validator(mode="after")
    def _sensible(self) -> ProjectOrder:
        for place, word in enumerate(self.keywords):
            if not word.strip() or not word.isprintable():
                raise ValueError(f"keywords[{place}] is blank, or holds what cannot be printed")
        if self.id in TAKEN:
            raise ValueError(f"id: {self.id} has another meaning here")
        if self.name is not None and not self.name.isprintable():
            raise ValueError("name holds what cannot be printed")
        if self.date_range is not None:
            first, last = self.date_range
            if last < first:
                raise ValueError(f"date_range ends on {last} before it begins on {first}")
            if (last - first).days >= DAYS_MAX:
                raise ValueError(f"date_range is over DAYS_MAX = {DAYS_MAX:,} days")
        return self


@dataclass(frozen=True, slots=True)
class AcceptedOrder:
    """An order that was understood."""

    keywords: Sequence[str]
    targets: Sequence[Mapping[str, str]]
    date_range: Sequence[str] | None = None
    name: str | None = None
    posts_max: int | None = None
    parent: str | None = None

    def payload(self) -> dict[str, Any]:
        """What `project.created` says of it: what the specification names, and of the rest what is there."""
        rest = {"name": self.name, "posts_max": self.posts_max, "parent": self.parent}
        return {
            "keywords": list(self.keywords),
            # A collector that was written from the specification reads both without asking.
            "targets": [{"platform": "", "url": "", **target} for target in self.targets],
            "date_range": list(self.date_range or ()),
            **{name: value for name, value in rest.items() if value is not None},
        }

    def digest(self) -> str:
        """Equal for equal orders."""
        return hashlib.sha256(msgspec.json.encode(self.payload(), order="sorted")).hexdigest()


def understood(given: ProjectOrder, wishes: CrawlWishes) -> AcceptedOrder:
    """The order as it is carried out. `InvalidPayload` with the words of the collector if it cannot be, and with the
    way out if a platform is served by nothing but a simulation that nobody asked for, or has no place to search."""
    targets = [target.model_dump(exclude_defaults=True) for target in given.targets]
    days = [day.isoformat() for day in given.date_range] if given.date_range else None
    keywords = list(dict.fromkeys(" ".join(word.split()) for word in given.keywords))
    order = AcceptedOrder(keywords, targets, days, given.name, given.posts_max)
    if (size := len(msgspec.json.encode(order.payload()))) > ORDER_BYTES_MAX:
        raise TooLarge(f"the order of {size:,} bytes is over ORDER_BYTES_MAX = {ORDER_BYTES_MAX:,}", "make several")
    try:
        tasks = split(read_order("any", order.payload()), wishes.searched)
    except OrderRefused as error:
        raise InvalidPayload(str(error)) from None
    if unserved := wishes.unserved(task.platform for task in tasks):
        raise InvalidPayload(unserved_words(", ".join(unserved)), WAY_OUT)
    if nowhere := wishes.nowhere(task.platform for task in tasks if not task.url and not task.beside):
        raise InvalidPayload(f"{', '.join(nowhere)}: read at addresses only, and the order names none", ADDRESS)
    return order
