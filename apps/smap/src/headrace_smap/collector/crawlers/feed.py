"""The feed crawler: JSONL, RSS, Atom and JSON APIs, from a file or over HTTP.

    news=feed:https://host/search?q={keyword}&day={day}
    news=feed:https://host/api/posts?q={keyword}#items=data.posts&next=paging.next
    news=feed:https://host/api/posts#items=list&page=page          ?page=1, 2, … until a page is empty
    news=feed:https://host/api/posts#cursor=meta.after&cursor_param=after
    news=feed:https://host/api/{target}/posts#likes=stats.likes    the last part of a target's address, or its word
    news=feed:file:///feeds/{platform}.jsonl                        below SMAP_CRAWL_DIR
    youtube=feed:#recipe=youtube-data                               see `recipes`
    news=feed                          the addresses of targets only; a search without any fails

{keyword}, {day}, {start}, {end} (days), {start_at}, {end_at} (moments), {platform} and {target} are filled in; a
parameter of the query that stays empty is left out. What stands behind # is for us and never sent: `recipe`, `format`
(jsonl, json, rss), `items`, `next`, `page` with `first`, `cursor` with `cursor_param`, `details` with `details_id` (a
second request for the items of a page by their {ids}), where the fields of a post lie in an item (see `field_paths`),
`header` and `robots` (see `feed_options`). Posts of other days or without the keyword are dropped if the address had no
place to ask for that. Unless there is a {target}, the address of a target is fetched as it is: with the same options,
and without the header.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit

import msgspec

from headrace_smap.collector.crawlers import feed_addresses, formats
from headrace_smap.collector.crawlers.feed_options import MASK, FeedOptions
from headrace_smap.collector.crawlers.field_paths import at_path
from headrace_smap.collector.crawlers.formats import Item
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import FetchedAnswer
from headrace_smap.collector.crawlers.recipes import RECIPES, RSS
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask, Page, Post
from headrace_smap.collector.wishes import CrawlWishes

PAGES_MAX = 10_000
POSTS_AT_ONCE = 200
DETAILS_AT_ONCE = 50
"""So many ids do APIs take in one request."""


class FeedPosition(msgspec.Struct, frozen=True):
    """Where a crawl is: the address of its page and its number. `ours`: it follows from the setting and not from the
    address of a project, so what the setting grants goes with it."""

    url: str
    page: int = 0
    ours: bool = False


def open_feed(argument: str, kit: CrawlKit) -> FeedCrawler:
    """Check what the setting says before anything is crawled."""
    return FeedCrawler(FeedOptions.read(argument), kit)


class FeedCrawler:
    """Crawls one kind of feed for any number of tasks."""

    def __init__(self, feed: FeedOptions, kit: CrawlKit) -> None:
        self._template, self._options, self._kit = feed.address, feed.options, kit
        self._access = feed.access(kit.wishes)
        self._places = feed.places
        usual = {name: path for name, path in RECIPES[RSS].options.items() if name in formats.FIELDS}
        self._xml_places = {**usual, **feed.places}

    async def pages(self, task: CrawlTask, cursor: str | None) -> AsyncIterator[Page]:
        place = msgspec.json.decode(cursor, type=FeedPosition) if cursor else self._beginning(task)
        while place is not None:
            answer = await self._read(self._address(place), place.ours)
            # A large answer takes seconds to understand; others have something to do meanwhile.
            items, following = await asyncio.to_thread(self._items, answer, place)
            if place.ours and "details" in self._options:
                items = await self._detailed(items, answer.url)
            wanted = await asyncio.to_thread(self._wanted, items, task)
            for start in range(0, max(len(wanted), 1), POSTS_AT_ONCE):
                end = start + POSTS_AT_ONCE
                # Until its last post is stored the page is read again as a whole: it may have changed meanwhile.
                yield _page_of(wanted[start:end], following if end >= len(wanted) else place)
            place = following

    async def close(self) -> None:
        """Nothing is open: the way to the web is shared."""

    def _beginning(self, task: CrawlTask) -> FeedPosition | None:
        """The first address of a task; None: there is no place to search, and the project has addresses of its own.
        Without those it would end as one that found nothing, and nobody would learn why."""
        first = int(self._options.get("first", "1"))
        if feed_addresses.TARGET in self._template and not task.url:
            if task.beside:
                return None
            raise CrawlFailed(f"{task.platform} is read page by page, not searched: name one as a target with its url")
        if task.url and feed_addresses.TARGET not in self._template:
            return FeedPosition(task.url.partition("#")[0], first)
        if not self._template:
            if task.beside:
                return None
            example = f"{task.platform}=feed:https://host/search?q={{keyword}}&day={{day}}"
            raise CrawlFailed(f"no address is configured for {task.platform}: SMAP_CRAWLERS='{example}'")
        return FeedPosition(feed_addresses.filled(self._template, task), first, ours=True)

    def _address(self, place: FeedPosition) -> str:
        if "page" not in self._options:
            return place.url
        return _with_parameter(place.url, self._options["page"], str(place.page))

    def _wanted(self, items: list[Item], task: CrawlTask) -> list[Post]:
        """The posts of an answer that belong to the task."""
        return [formats.post_of(item, task, self._places_of(item)) for item in items if self._wants(item, task)]

    def _places_of(self, item: Item) -> Mapping[str, str]:
        return self._places if item.element is None else self._xml_places

    def _items(self, answer: FetchedAnswer, place: FeedPosition) -> tuple[list[Item], FeedPosition | None]:
        shape = self._options.get("format") or formats.format_of(answer)
        if shape == formats.XML:
            return formats.entries_of(answer), None
        if shape == formats.JSONL:
            return formats.lines_of(answer.body), None
        document = formats.document_of(answer.body)
        items = formats.items_of(document, self._options.get("items", ""))
        return items, self._following(place, answer.url, document, bool(items))

    async def _detailed(self, items: list[Item], url: str) -> list[Item]:
        """The items with everything that is told of them one by one; those without an id stay as they are."""
        ids = [at_path(item.fields, self._options["details_id"]) for item in items]
        known = [each for each in ids if isinstance(each, str) and each]
        found = [item for item, each in zip(items, ids, strict=True) if not isinstance(each, str) or not each]
        for start in range(0, len(known), DETAILS_AT_ONCE):
            listed = ",".join(quote(each, safe="") for each in known[start : start + DETAILS_AT_ONCE])
            answer = await self._read(urljoin(url, self._options["details"].replace("{ids}", listed)), ours=True)
            document = await asyncio.to_thread(formats.document_of, answer.body)
            found += formats.items_of(document, self._options.get("items", ""))
        return found

    def _following(self, place: FeedPosition, url: str, document: Any, any_items: bool) -> FeedPosition | None:
        """The page after this one. A feed that leads in circles ends where it repeats itself, at the latest here."""
        number = place.page + 1
        if number > PAGES_MAX:
            return None
        if "page" in self._options:
            return msgspec.structs.replace(place, page=number) if any_items else None
        if "cursor" in self._options:
            after = at_path(document, self._options["cursor"])
            if not isinstance(after, str | int) or isinstance(after, bool) or not any_items:
                return None
            url = _with_parameter(place.url, self._options["cursor_param"], str(after))
        else:
            link = at_path(document, self._options.get("next", "next"))
            if not isinstance(link, str) or not link:
                return None
            url = _without_mask(urljoin(url, link))
        return FeedPosition(url, number, place.ours) if url != place.url else None

    def _wants(self, item: Item, task: CrawlTask) -> bool:
        """Whether an item belongs to the task, as far as it was not the feed's business to choose."""
        if item.raw:
            return True
        asked_day = not task.url and any(f"{{{name}" in self._template for name in ("day", "start", "end"))
        day = formats.day_of(item, self._places_of(item), task.zone)
        if day is not None and not asked_day and not task.covers(day):
            return False
        asked_keyword = not task.keyword or "{keyword}" in self._template
        return asked_keyword or formats.mentions(item.fields, task.keyword)

    async def _read(self, url: str, ours: bool) -> FetchedAnswer:
        if url.startswith("file:"):
            return await asyncio.to_thread(read_file, url, self._kit.wishes)
        if not ours:
            return await self._kit.fetcher.fetch(url)
        answer = await self._kit.fetcher.fetch(url, self._access.origin)
        return replace(answer, body=self._access.without_token(answer.body))


def read_file(url: str, wishes: CrawlWishes) -> FetchedAnswer:
    """A file below the one directory that may be read, wherever links lead."""
    if wishes.directory is None:
        raise CrawlFailed("file:// is refused: no directory is named by SMAP_CRAWL_DIR")
    try:
        path = Path(unquote(urlsplit(url).path)).resolve()
        if not path.is_relative_to(wishes.directory):
            raise CrawlFailed("the file is not below the directory of SMAP_CRAWL_DIR")
        with path.open("rb") as file:
            body = file.read(wishes.bytes_max + 1)
    except (OSError, ValueError) as error:
        raise CrawlFailed(f"the file cannot be read: {error.__class__.__name__}") from None
    if len(body) > wishes.bytes_max:
        raise CrawlFailed(f"the file is over the limit of {wishes.bytes_max:,} bytes")
    return FetchedAnswer(body, url)


def _page_of(posts: list[Post], after: FeedPosition | None) -> Page:
    return Page(posts, None if after is None else msgspec.json.encode(after).decode())


def _with_parameter(url: str, name: str, value: str) -> str:
    """The address with one parameter of its query set."""
    parts = urlsplit(url)
    query = [(key, text) for key, text in parse_qsl(parts.query, keep_blank_values=True) if key != name]
    return parts._replace(query=urlencode([*query, (name, value)])).geturl()


def _without_mask(url: str) -> str:
    """The address without parameters that held a token: it is sent as a header."""
    if MASK not in unquote(url):
        return url
    parts = urlsplit(url)
    query = [(key, text) for key, text in parse_qsl(parts.query, keep_blank_values=True) if MASK not in text]
    return parts._replace(query=urlencode(query)).geturl()
