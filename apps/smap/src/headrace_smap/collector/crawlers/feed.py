"""The feed crawler: JSONL, RSS, Atom and JSON APIs, from a file or over HTTP.

    news=feed:https://host/search?q={keyword}&day={day}
    news=feed:https://host/api/posts?q={keyword}#items=data.posts&next=paging.next
    news=feed:https://host/api/posts#items=list&page=page          ?page=1, 2, … until a page is empty
    news=feed:https://host/api/posts#cursor=meta.after&cursor_param=after
    news=feed:file:///feeds/{platform}.jsonl                        below SMAP_CRAWL_DIR
    news=feed                          the addresses of targets only; a search without any fails

{keyword}, {day}, {start}, {end} and {platform} are filled in. What stands behind # is for us and never sent: `format`
(jsonl, json, rss), `items`, `next`, `page` with `first`, `cursor` with `cursor_param`, and for where a field lies in an
item: `id`, `text`, `published_at`, `url`. Posts of other days or without the keyword are dropped if the address had no
place to ask for that. The address of a target is fetched as it is, with the same options.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urljoin, urlsplit

import msgspec

from headrace.errors import CallerError
from headrace_smap.collector.crawlers import formats
from headrace_smap.collector.crawlers.addresses import checked_parts
from headrace_smap.collector.crawlers.formats import Item
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import FetchedAnswer
from headrace_smap.collector.tasks import CrawlFailed, CrawlTask, Page, Post
from headrace_smap.collector.wishes import CrawlWishes

PAGES_MAX = 10_000
POSTS_AT_ONCE = 200
OPTIONS = ("format", "items", "next", "page", "first", "cursor", "cursor_param", *formats.NAMES)


class FeedPosition(msgspec.Struct, frozen=True):
    """Where a crawl is: the address of its page and its number."""

    url: str
    page: int = 0


def open_feed(argument: str, kit: CrawlKit) -> FeedCrawler:
    """Check what the setting says before anything is crawled."""
    template, _, fragment = argument.partition("#")
    options = dict(parse_qsl(fragment, keep_blank_values=True))
    if unknown := sorted(set(options) - set(OPTIONS)):
        raise CallerError(f"the feed crawler has no option {unknown[0]!r}", f"options: {', '.join(OPTIONS)}")
    if options.get("format", formats.JSON) not in formats.FORMATS:
        raise CallerError(f"the feed crawler knows no format {options['format']!r}", ", ".join(formats.FORMATS))
    if not options.get("first", "1").isdigit():
        raise CallerError(f"the feed crawler's option first={options['first']!r} is not a number")
    if ("cursor" in options) != ("cursor_param" in options):
        raise CallerError("the feed crawler needs cursor and cursor_param together")
    if template and not template.startswith("file://"):
        try:
            checked_parts(template)
        except CrawlFailed as error:
            raise CallerError(f"the feed crawler cannot use {template!r}: {error}", "feed:https://…") from None
    return FeedCrawler(template, options, kit)


class FeedCrawler:
    """Crawls one kind of feed for any number of tasks."""

    def __init__(self, template: str, options: Mapping[str, str], kit: CrawlKit) -> None:
        self._template, self._options, self._kit = template, options, kit
        self._places = {name: options[name] for name in formats.NAMES if name in options}

    async def pages(self, task: CrawlTask, cursor: str | None) -> AsyncIterator[Page]:
        place = msgspec.json.decode(cursor, type=FeedPosition) if cursor else self._beginning(task)
        while place is not None:
            answer = await self._read(self._address(place))
            # A large answer takes seconds to understand; others have something to do meanwhile.
            wanted, following = await asyncio.to_thread(self._understood, answer, place, task)
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
        if task.url:
            return FeedPosition(task.url.partition("#")[0], first)
        if not self._template:
            if task.beside:
                return None
            example = f"{task.platform}=feed:https://host/search?q={{keyword}}&day={{day}}"
            raise CrawlFailed(f"no address is configured for {task.platform}: SMAP_CRAWLERS='{example}'")
        fields = {"keyword": task.keyword, "day": task.day, "start": task.start, "end": task.end}
        url = self._template.replace("{platform}", quote(task.platform, safe=""))
        for name, value in fields.items():
            url = url.replace(f"{{{name}}}", quote(value, safe=""))
        return FeedPosition(url, first)

    def _address(self, place: FeedPosition) -> str:
        if "page" not in self._options:
            return place.url
        return _with_parameter(place.url, self._options["page"], str(place.page))

    def _understood(
        self, answer: FetchedAnswer, place: FeedPosition, task: CrawlTask
    ) -> tuple[list[Post], FeedPosition | None]:
        """The posts of an answer that belong to the task, and where to go on."""
        items, following = self._items(answer, place)
        return [formats.post_of(item, task, self._places) for item in items if self._wants(item, task)], following

    def _items(self, answer: FetchedAnswer, place: FeedPosition) -> tuple[list[Item], FeedPosition | None]:
        shape = self._options.get("format") or formats.format_of(answer)
        if shape == formats.XML:
            return formats.entries_of(answer), None
        if shape == formats.JSONL:
            return formats.lines_of(answer.body), None
        document = formats.document_of(answer.body)
        items = formats.items_of(document, self._options.get("items", ""))
        return items, self._following(place, answer.url, document, bool(items))

    def _following(self, place: FeedPosition, url: str, document: Any, any_items: bool) -> FeedPosition | None:
        """The page after this one. A feed that leads in circles ends where it repeats itself, at the latest here."""
        number = place.page + 1
        if number > PAGES_MAX:
            return None
        if "page" in self._options:
            return FeedPosition(place.url, number) if any_items else None
        if "cursor" in self._options:
            after = formats.at_path(document, self._options["cursor"])
            if not isinstance(after, str | int) or isinstance(after, bool) or not any_items:
                return None
            url = _with_parameter(place.url, self._options["cursor_param"], str(after))
        else:
            link = formats.at_path(document, self._options.get("next", "next"))
            if not isinstance(link, str) or not link:
                return None
            url = urljoin(url, link)
        return FeedPosition(url, number) if url != place.url else None

    def _wants(self, item: Item, task: CrawlTask) -> bool:
        """Whether an item belongs to the task, as far as it was not the feed's business to choose."""
        if item.raw:
            return True
        asked_day = not task.url and any(f"{{{name}}}" in self._template for name in ("day", "start", "end"))
        day = formats.day_of(item, self._places)
        if day is not None and not asked_day and not task.covers(day):
            return False
        asked_keyword = not task.keyword or "{keyword}" in self._template
        return asked_keyword or formats.mentions(item.fields, task.keyword)

    async def _read(self, url: str) -> FetchedAnswer:
        if not url.startswith("file:"):
            return await self._kit.fetcher.fetch(url)
        return await asyncio.to_thread(read_file, url, self._kit.wishes)


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
