"""What a feed may look like: lines of JSON, RSS or Atom, the answer of a JSON API. All become raw posts.

An item that cannot be understood stays a post with the bytes it has: it is counted as an error where posts are read,
instead of vanishing here.
"""

from __future__ import annotations

import calendar
import hashlib
import io
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from headrace_smap.collector.crawlers.field_paths import at_element, at_path, mapped
from headrace_smap.collector.crawlers.polite_fetcher import FetchedAnswer
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask, Post

ITEMS_MAX = 100_000
DEPTH_MAX = 20
JSONL, JSON, XML = "jsonl", "json", "rss"
FORMATS = (JSONL, JSON, XML)
# Broken XML takes its reader 20 s of CPU for a megabyte.
XML_BYTES_MAX = 3_000_000
NAMES: Mapping[str, Sequence[str]] = {
    "id": ("id", "post_id", "guid", "url", "link"),
    "text": ("text", "content", "body", "message", "caption", "description", "summary", "title"),
    "published_at": ("published_at", "published", "created_at", "created_time", "pubDate", "date", "timestamp"),
    "permalink": ("url", "link", "permalink"),
    "author": (),
    "followers": (),
    "likes": ("likes", "like_count", "likeCount"),
    "comments": ("comments", "comment_count", "commentCount"),
    "shares": ("shares", "share_count", "shareCount"),
    "views": ("views", "view_count", "viewCount"),
}
"""Where each field of a raw post may be found in an item of somebody else's."""
FIELDS = tuple(NAMES)
COUNTERS = ("likes", "comments", "shares", "views")
_decode, _encode = msgspec.json.decode, msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a feed: its fields, or the bytes that could not be understood. `element` is an entry of XML as it
    was read, for what its fields leave out."""

    fields: Mapping[str, Any]
    raw: bytes = b""
    element: Mapping[str, Any] | None = None

    def field(self, name: str, places: Mapping[str, str]) -> Any:
        """What an item says of a field of a post: where the setting says, else where it usually lies. None: nothing."""
        if name in places:
            find, source = (at_path, self.fields) if self.element is None else (at_element, self.element)
            return mapped(source, places[name], find)
        usual = (self.fields[other] for other in NAMES[name] if self.fields.get(other) not in (None, ""))
        return next(usual, None)


def format_of(answer: FetchedAnswer) -> str:
    """Judged by what is there; the type that a server names is often wrong."""
    start = answer.body[:2_000].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"<"):
        return XML
    if start.startswith(b"["):
        return JSON
    path = answer.url.partition("?")[0].lower()
    if "ndjson" in answer.kind or "jsonl" in answer.kind or path.endswith((".jsonl", ".ndjson")):
        return JSONL
    try:
        _decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        return JSONL
    return JSON


def lines_of(body: bytes) -> list[Item]:
    """One object per line; empty lines are nothing."""
    items = []
    for line in body.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.strip():
            items.append(_item(line.strip()))
    return _bounded(items)


def document_of(body: bytes) -> Any:
    """The answer of a JSON API."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CrawlFailed(f"the answer is not JSON: {error}") from None


def items_of(document: Any, path: str) -> list[Item]:
    """The list of items in a document; without a path the usual places are looked at."""
    found = at_path(document, path) if path else _usual(document)
    if not isinstance(found, list):
        raise CrawlFailed(f"the answer has no list of items at {path or 'the usual places'}: name it by #items=…")
    return _bounded([Item(entry) if isinstance(entry, dict) else Item({}, _encode(entry)) for entry in found])


def entries_of(answer: FetchedAnswer) -> list[Item]:
    """The entries of RSS or Atom, as far as they can be read."""
    import feedparser  # type: ignore[import-untyped]

    if len(answer.body) > XML_BYTES_MAX:
        raise CrawlFailed(f"a feed of {len(answer.body):,} bytes is over XML_BYTES_MAX = {XML_BYTES_MAX:,}")
    # A stream and not bytes: what looks like an address would be opened.
    feed = feedparser.parse(io.BytesIO(answer.body), response_headers={"content-location": answer.url})
    if not feed.entries and not feed.version:
        raise CrawlFailed(f"the answer is neither RSS nor Atom: {feed.get('bozo_exception', 'it is empty')}")
    return _bounded([Item(_entry(entry), element=entry) for entry in feed.entries])


def post_of(item: Item, task: CrawlTask, places: Mapping[str, str]) -> Post:
    """An item as a raw post: our names where it had others, everything else as it was."""
    if item.raw:
        return Post(hashlib.blake2b(item.raw, digest_size=16).hexdigest(), item.raw)
    post = {**item.fields, **_told(item, places)}
    post_id = post.get("id")
    if not isinstance(post_id, str):
        written = _encode(item.fields if post_id is None else post_id)
        post_id = hashlib.blake2b(written, digest_size=16).hexdigest() if post_id is None else written.decode()
    post["id"], post["platform"], post["keyword"] = post_id, task.platform, keyword_of(task, post)
    return Post(post_id, _encode(post))


def _told(item: Item, places: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a raw post. What an item has in our own form stays unless the setting says where else to look; a
    list or an object is no counter."""
    known = {name: value for name in FIELDS if (value := item.field(name, places)) is not None}
    names = {"id": "id", "text": "text", "published_at": "published_at", "permalink": "url"}
    told = {ours: known[name] for name, ours in names.items() if name in known}
    author = _part(item.fields, "author")
    if "author" in known:
        author["name"] = known["author"]
    if "followers" in known:
        author["followers"] = known["followers"]
    counted = {name: known[name] for name in COUNTERS if isinstance(known.get(name), int | float | str)}
    mapped_ones = {name: value for name, value in counted.items() if name in places}
    metrics = counted | _part(item.fields, "metrics") | mapped_ones
    return told | {name: part for name, part in (("author", author), ("metrics", metrics)) if part}


def _part(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    part = fields.get(name)
    if isinstance(part, dict):
        return dict(part)
    return {"name": part} if name == "author" and isinstance(part, str) and part else {}


def keyword_of(task: CrawlTask, post: Mapping[str, Any]) -> str:
    """What this post was found by: the keyword that was searched, or the first of the project's that it holds."""
    if task.keyword:
        return task.keyword
    return next((keyword for keyword in task.keywords if mentions(post, keyword)), "")


def mentions(fields: Mapping[str, Any], keyword: str) -> bool:
    """Whether any text of an item holds the keyword, whatever its case and its way of writing accents."""
    wanted = folded(keyword)
    return any(wanted in folded(text) for text in _texts(fields))


def day_of(item: Item, places: Mapping[str, str], zone: ZoneInfo) -> date | None:
    """The day on which it was published; None if it does not say. A time without a zone is of this one."""
    given = item.field("published_at", places)
    try:
        if isinstance(given, int | float):
            return datetime.fromtimestamp(given / 1000 if given > 1e11 else given, zone).date()
        if isinstance(given, str):
            moment = datetime.fromisoformat(given)
            return (moment.astimezone(zone) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError, OSError):
        return None
    return None


def folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def _item(line: bytes) -> Item:
    try:
        found = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Item({}, line)
    return Item(found) if isinstance(found, dict) else Item({}, line)


def _bounded(items: list[Item]) -> list[Item]:
    if len(items) > ITEMS_MAX:
        raise CrawlFailed(f"{len(items):,} items in one answer are over ITEMS_MAX = {ITEMS_MAX:,}: use paging")
    return items


def _usual(document: Any) -> Any:
    if isinstance(document, list):
        return document
    for path in ("items", "data", "posts", "results", "entries", "data.items", "data.posts"):
        if isinstance(found := at_path(document, path), list):
            return found
    return None


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict() if depth < DEPTH_MAX:
            for inner in value.values():
                yield from _texts(inner, depth + 1)
        case list() if depth < DEPTH_MAX:
            for inner in value:
                yield from _texts(inner, depth + 1)


def _entry(entry: Any) -> dict[str, Any]:
    content = " ".join(part.get("value", "") for part in entry.get("content", ())) or entry.get("summary", "")
    words = [_plain(entry.get("title", "")), _plain(content)]
    moment = entry.get("published_parsed") or entry.get("updated_parsed")
    found: dict[str, Any] = {
        "id": entry.get("id") or entry.get("link"),
        "text": "\n".join(word for word in words if word),
        "title": words[0],
        "url": entry.get("link"),
        "author": {"name": entry["author"]} if entry.get("author") else None,
        "published_at": _stamp(moment) if moment else None,
        "hashtags": [tag.get("term") for tag in entry.get("tags", ()) if tag.get("term")],
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _stamp(moment: time.struct_time) -> str:
    return datetime.fromtimestamp(calendar.timegm(moment), UTC).isoformat().replace("+00:00", "Z")


class _Words(HTMLParser):
    """Text without its marks."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.words.append(" ")


def _plain(text: str) -> str:
    reader = _Words()
    reader.feed(text)
    reader.close()
    return " ".join("".join(reader.words).split())
