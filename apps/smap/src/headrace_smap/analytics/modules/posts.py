"""A raw post: a JSON object of which `id`, `platform` and `text` are required and everything else is welcome.

Collectors are written by many people, so reading is generous: numbers as words, missing or null fields, an author as a
plain name. It is strict in one thing: what leaves here can be stored anywhere (no NUL, no half surrogate, bounded).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from headrace.errors import InvalidPayload
from headrace_smap.analytics.modules.amounts import count, moment
from headrace_smap.days import VIETNAM

TEXT_CHARS_MAX = 5_000
"""Analysis looks at so much of a text; the blob keeps the whole."""
ID_CHARS_MAX = 512
NAME_CHARS_MAX = 256
URL_CHARS_MAX = 2_048
PLATFORM_CHARS_MAX = 64
_READ = frozenset(("id", "platform", "text", "author", "metrics", "published_at", "url", "simulated"))
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class InvalidPost(InvalidPayload):
    """A blob that is JSON but no post. `rule` is the short name of what is wrong."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message, "a post is a JSON object with id, platform and text")
        self.rule = rule

    def __reduce__(self) -> tuple[type[InvalidPost], tuple[str, str]]:
        return InvalidPost, (self.rule, str(self))


class RawPost(msgspec.Struct, frozen=True):
    """What was collected. Counters are None where the platform does not tell them; `simulated`: it was made up."""

    id: str
    platform: str
    text: str
    author_id: str | None = None
    author_name: str | None = None
    followers: int | None = None
    likes: int | None = None
    comments: int | None = None
    shares: int | None = None
    views: int | None = None
    published_at: datetime | None = None
    url: str | None = None
    simulated: bool = False
    others: Mapping[str, object] = {}

    @staticmethod
    def read(value: object, zone: ZoneInfo = VIETNAM) -> RawPost:
        """The post in a decoded JSON value, in which times without a zone are of this one; raises `InvalidPost`."""
        if not isinstance(value, Mapping):
            raise InvalidPost("post_not_an_object", f"a post is a JSON object, not {type(value).__name__}")
        author = value.get("author")
        about = author if isinstance(author, Mapping) else {"name": author}
        told = value.get("metrics")
        metrics: Mapping[str, object] = told if isinstance(told, Mapping) else {}
        return RawPost(
            id=_required(value, "id", ID_CHARS_MAX),
            platform=_required(value, "platform", PLATFORM_CHARS_MAX).lower(),
            text=_text(value),
            author_id=_optional(about.get("id"), ID_CHARS_MAX),
            author_name=_optional(about.get("name"), NAME_CHARS_MAX),
            followers=count(about.get("followers")),
            likes=count(metrics.get("likes")),
            comments=count(metrics.get("comments")),
            shares=count(metrics.get("shares")),
            views=count(metrics.get("views")),
            published_at=moment(value.get("published_at"), zone),
            url=_optional(value.get("url"), URL_CHARS_MAX),
            simulated=value.get("simulated") is True,
            others={key: other for key, other in value.items() if key not in _READ},
        )


def storable(text: str) -> str:
    """The text without what UTF-8 or PostgreSQL cannot hold."""
    if "\x00" not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            """Half a surrogate pair."""
        else:
            return text
    return _UNSTORABLE.sub("\ufffd", text)


def _required(value: Mapping[object, object], name: str, chars_max: int) -> str:
    found = _optional(value.get(name), chars_max)
    if found is None:
        raise InvalidPost(f"post_without_{name}", f"the post has no {name}")
    return found


def _optional(value: object, chars_max: int) -> str | None:
    """A short string; numbers are written out, anything else is not there."""
    if isinstance(value, str):
        return storable(value[: chars_max * 2]).strip()[:chars_max] or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        # A number of thousands of digits would not be written out by Python at all.
        return str(value) if abs(value) < 10**30 else None
    return None


def _text(value: Mapping[object, object]) -> str:
    text = value.get("text")
    if not isinstance(text, str):
        raise InvalidPost("post_without_text", "the post has no text")
    return storable(text[:TEXT_CHARS_MAX])
