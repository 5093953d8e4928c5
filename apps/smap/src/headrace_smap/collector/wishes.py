"""What the environment says about crawling. Read once, when the service is made.

SMAP_PLATFORMS           tiktok,facebook,youtube     searched if a project names no platform
SMAP_CRAWLERS            who serves which platform: tiktok=simulated,news=feed:https://host/s?q={keyword}&day={day}
SMAP_CRAWL_DIR           the one directory below which file:// addresses may be read
SMAP_CRAWL_PRIVATE       1: addresses of this machine and of private networks may be fetched
SMAP_CRAWL_INTERVAL_S    1     at least so long between two requests to one host
SMAP_CRAWL_TIMEOUT_S     30    for one request
SMAP_CRAWL_BYTES_MAX     20000000    for one answer
SMAP_CRAWL_AGENT         who we say we are
SMAP_CRAWL_LANES         8     tasks at a time in one process
SMAP_CRAWL_TURN_S        5     after so long a task makes room for the next, and goes on later
SMAP_CRAWL_HOLD_S        15    so long after a process was killed its tasks go to others
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CallerError
from headrace_smap.collector.naming import platform_name
from headrace_smap.settings import number

PLATFORMS = "tiktok,facebook,youtube"
CRAWLERS = "feed=feed,rss=feed,atom=feed,json=feed,jsonl=feed,news=feed,*=simulated"
EVERY_OTHER = "*"
_PAIR = re.compile(r"\s*(\*|[A-Za-z0-9][\w-]*)\s*=\s*([a-z][a-z0-9_-]*)(?::(.*))?\s*", re.DOTALL)
# A comma inside an address is not a separator: what follows one must begin like the next pair.
_NEXT = re.compile(r",(?=\s*(?:\*|[A-Za-z0-9][\w-]*)\s*=\s*[a-z][a-z0-9_-]*\s*(?::|,|$))")


@dataclass(frozen=True, slots=True)
class Choice:
    """A crawler by name, and what it is told."""

    crawler: str
    argument: str = ""


@dataclass(frozen=True, slots=True)
class CrawlWishes:
    """How to crawl; the module's words say what each means."""

    platforms: tuple[str, ...]
    crawlers: Mapping[str, Choice]
    directory: Path | None = None
    private: bool = False
    interval_s: float = 1.0
    timeout_s: float = 30.0
    bytes_max: int = 20_000_000
    agent: str = "headrace/0.1"
    attempts: int = 5
    backoff_s: float = 1.0
    lanes: int = 8
    turn_s: float = 5.0
    hold_s: float = 15.0


def read_wishes(environment: Mapping[str, str]) -> CrawlWishes:
    """Understand the settings, or say which one is wrong."""
    directory, private = environment.get("SMAP_CRAWL_DIR", ""), environment.get("SMAP_CRAWL_PRIVATE", "0")
    if private not in ("", "0", "1"):
        raise CallerError(f"SMAP_CRAWL_PRIVATE={private!r} is neither 0 nor 1")
    plain = CrawlWishes((), {})
    return CrawlWishes(
        platforms=read_platforms(environment.get("SMAP_PLATFORMS") or PLATFORMS),
        crawlers=read_choices(environment.get("SMAP_CRAWLERS") or CRAWLERS),
        directory=Path(directory).resolve() if directory else None,
        private=private == "1",
        interval_s=number(environment, "SMAP_CRAWL_INTERVAL_S", float, plain.interval_s, 0.0),
        timeout_s=number(environment, "SMAP_CRAWL_TIMEOUT_S", float, plain.timeout_s, 0.1),
        bytes_max=number(environment, "SMAP_CRAWL_BYTES_MAX", int, plain.bytes_max, 1_000),
        agent=environment.get("SMAP_CRAWL_AGENT") or plain.agent,
        attempts=number(environment, "SMAP_CRAWL_ATTEMPTS", int, plain.attempts, 1),
        backoff_s=number(environment, "SMAP_CRAWL_BACKOFF_S", float, plain.backoff_s, 0.0),
        lanes=number(environment, "SMAP_CRAWL_LANES", int, plain.lanes, 1, 1_000),
        turn_s=number(environment, "SMAP_CRAWL_TURN_S", float, plain.turn_s, 0.0),
        hold_s=number(environment, "SMAP_CRAWL_HOLD_S", float, plain.hold_s, 0.5),
    )


def read_platforms(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(platform_name(name) for name in text.split(",") if name.strip()))
    except ValueError as error:
        raise CallerError(f"SMAP_PLATFORMS: {error}", f"such as {PLATFORMS}") from None


def read_choices(text: str) -> dict[str, Choice]:
    """`platform=crawler` or `platform=crawler:argument`, separated by commas; `*` is every other platform."""
    choices: dict[str, Choice] = {}
    for part in _NEXT.split(text):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise CallerError(
                f"SMAP_CRAWLERS: {part[:100]!r} is not platform=crawler or platform=crawler:argument",
                "such as tiktok=simulated,news=feed:https://host/search?q={keyword}&day={day}",
            )
        choices[pair[1].lower()] = Choice(pair[2], (pair[3] or "").strip())
    return choices
