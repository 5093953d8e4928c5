"""A project as it was ordered, split into crawl tasks: platform × keyword × day, and one per address of its targets.

Orders come from services of anybody, so they are read with patience: what can be understood is. What cannot is refused
with the name of the field or of the limit; nothing is cut off silently.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from headrace_smap.collector.blob_names import platform_name
from headrace_smap.collector.tasks import CrawlTask
from headrace_smap.collector.wishes import WAY_OUT
from headrace_smap.days import VIETNAM, day_of

KEYWORDS_MAX = 200
KEYWORD_CHARS_MAX = 200
TARGETS_MAX = 2_000
URL_CHARS_MAX = 2_000
DAYS_MAX = 3_660
TASKS_MAX = 20_000
HOSTS = {"tiktok.com": "tiktok", "facebook.com": "facebook", "fb.com": "facebook", "fb.watch": "facebook"}
HOSTS |= {"youtube.com": "youtube", "youtu.be": "youtube"}
ELSEWHERE = "feed"
"""The platform of an address that names none."""


class OrderRefused(Exception):
    """An order that cannot be carried out as it is; the words are for its author."""


@dataclass(frozen=True, slots=True)
class CrawlTarget:
    """Where to look. Without an address it only names a platform."""

    platform: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class CrawlOrder:
    """What a project wants. Both days belong to it and are days of `zone`; None: any time."""

    project: str
    keywords: tuple[str, ...] = ()
    targets: tuple[CrawlTarget, ...] = ()
    days: tuple[date, date] | None = None
    posts_max: int = 0
    zone: ZoneInfo = VIETNAM


def read_order(project: str, payload: Mapping[str, Any], zone: ZoneInfo = VIETNAM) -> CrawlOrder:
    """Understand what `project.created` orders, or say which field is wrong."""
    keywords = _keywords(payload.get("keywords"))
    targets = tuple(dict.fromkeys(_targets(payload.get("targets"))))
    days = read_days(payload.get("date_range"), zone)
    return CrawlOrder(project, keywords, targets, days, _posts_max(payload.get("posts_max")), zone)


def split(order: CrawlOrder, platforms: Sequence[str]) -> list[CrawlTask]:
    """The tasks of an order. `platforms` are searched if the order names none."""
    named = dict.fromkeys(target.platform for target in order.targets)
    searched = tuple(named) or tuple(platforms)
    if order.keywords and not searched:
        raise OrderRefused(f"targets names no platform, and there is none to search. {WAY_OUT}")
    days = _day_count(order)
    count = len(searched) * len(order.keywords) * max(1, days)
    count += sum(1 for target in order.targets if target.url)
    if count > TASKS_MAX:
        raise OrderRefused(
            f"{len(searched)} platforms × {len(order.keywords)} keywords × {days} days and the targets are {count:,} "
            f"crawl tasks, over TASKS_MAX = {TASKS_MAX:,}: shorten date_range, or make several projects"
        )
    return [*_searches(order, searched), *_addresses(order)]


def _searches(order: CrawlOrder, platforms: Sequence[str]) -> Iterator[CrawlTask]:
    addressed = {target.platform for target in order.targets if target.url}
    for day in _each_day(order):
        for platform in platforms:
            for keyword in order.keywords:
                yield CrawlTask(
                    order.project,
                    f"{platform} {day or 'any day'} {keyword}",
                    platform,
                    keyword,
                    start=day,
                    end=day,
                    posts_max=order.posts_max,
                    beside=platform in addressed,
                    timezone=order.zone.key,
                )


def _addresses(order: CrawlOrder) -> Iterator[CrawlTask]:
    start, end = (day.isoformat() for day in order.days) if order.days else ("", "")
    for target in order.targets:
        if target.url:
            digest = hashlib.blake2b(target.url.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
            name = f"{target.platform} address {digest}"
            yield CrawlTask(
                order.project,
                name,
                target.platform,
                url=target.url,
                start=start,
                end=end,
                keywords=order.keywords,
                posts_max=order.posts_max,
                timezone=order.zone.key,
            )


def _day_count(order: CrawlOrder) -> int:
    return (order.days[1] - order.days[0]).days + 1 if order.days else 0


def _each_day(order: CrawlOrder) -> Iterable[str]:
    if order.days is None:
        return ("",)
    first = order.days[0]
    return ((first + timedelta(days=number)).isoformat() for number in range(_day_count(order)))


def _keywords(given: object) -> tuple[str, ...]:
    words = [given] if isinstance(given, str) else given or []
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise OrderRefused("keywords must be a list of texts")
    found: dict[str, str] = {}
    for word in (" ".join(word.split()) for word in words):
        if len(word) > KEYWORD_CHARS_MAX:
            raise OrderRefused(f"a keyword of {len(word):,} characters is over KEYWORD_CHARS_MAX = {KEYWORD_CHARS_MAX}")
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in word):
            raise OrderRefused("a keyword holds characters that no text has")
        if word:
            found.setdefault(word.casefold(), word)
    if len(found) > KEYWORDS_MAX:
        raise OrderRefused(f"{len(found):,} keywords are over KEYWORDS_MAX = {KEYWORDS_MAX}")
    return tuple(found.values())


def _posts_max(given: object) -> int:
    if given is None:
        return 0
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise OrderRefused("posts_max must be a whole number from 1 on")
    return given


def _targets(given: object) -> Iterator[CrawlTarget]:
    targets = given if isinstance(given, list) else [given] if given else []
    if len(targets) > TARGETS_MAX:
        raise OrderRefused(f"{len(targets):,} targets are over TARGETS_MAX = {TARGETS_MAX:,}")
    for target in targets:
        match target:
            case str():
                yield _target("", target) if "/" in target else _target(target, "")
            case {"platform": str() as platform, "url": str() as url}:
                yield _target(platform, url)
            case {"platform": str() as platform, **rest} if rest.get("url") is None:
                yield _target(platform, "")
            case {"url": str() as url, **rest} if rest.get("platform") is None:
                yield _target("", url)
            case _:
                raise OrderRefused("each of targets must be an object with a platform, a url, or both")


def _target(platform: str, url: str) -> CrawlTarget:
    address = url.strip()
    if len(address) > URL_CHARS_MAX:
        raise OrderRefused(f"a url of {len(address):,} characters is over URL_CHARS_MAX = {URL_CHARS_MAX:,}")
    if not address.isprintable():
        raise OrderRefused("a url of targets holds characters that no address has")
    if not platform.strip() and not address:
        raise OrderRefused("each of targets must name a platform, a url, or both")
    try:
        return CrawlTarget(platform_name(platform) if platform.strip() else _platform_of(address), address)
    except ValueError as error:
        raise OrderRefused(str(error)) from None


def _platform_of(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ELSEWHERE
    known = [name for domain, name in HOSTS.items() if host == domain or host.endswith(f".{domain}")]
    return known[0] if known else ELSEWHERE


def read_days(given: object, zone: ZoneInfo) -> tuple[date, date] | None:
    """The first and the last day of a range; None: any time. A moment is of the day that it has in the zone."""
    match given:
        case None | [] | "" | [None, None] | ["", ""]:
            return None
        case [first, last] | {"from": first, "to": last} | {"start": first, "end": last}:
            start, end = _day(first, zone), _day(last, zone)
        case _:
            raise OrderRefused("date_range must be a list of two days, the first and the last")
    if end < start:
        raise OrderRefused(f"date_range ends on {end} before it begins on {start}")
    if (count := (end - start).days + 1) > DAYS_MAX:
        raise OrderRefused(f"date_range of {count:,} days is over DAYS_MAX = {DAYS_MAX:,}: make several projects")
    return start, end


def _day(given: object, zone: ZoneInfo) -> date:
    if not isinstance(given, str):
        raise OrderRefused("date_range must hold days as texts, such as 2025-01-31")
    try:
        if len(given) <= len("2025-01-31"):
            return date.fromisoformat(given)
        moment = datetime.fromisoformat(given)
        return day_of(moment, zone) if moment.tzinfo else moment.date()
    except (ValueError, OverflowError):
        raise OrderRefused(f"date_range: {given[:40]!r} is not a day such as 2025-01-31") from None
