"""What the environment says about crawling. Read once, when the service is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import CallerError
from headrace.services import Sources, read, setting, whole_environment
from headrace_smap.collector.blob_names import platform_name
from headrace_smap.collector.crawlers.feed_addresses import TARGET
from headrace_smap.collector.crawlers.recipes import feed_address
from headrace_smap.settings import PREFIX

FEED, SIMULATED = "feed", "simulated"
FEEDS = frozenset(("feed", "rss", "atom", "json", "jsonl", "news"))
"""Platforms that are addresses of feeds, whatever else is set."""
SIMULATED_PLATFORMS = ("tiktok", "facebook", "youtube")
WAY_OUT = (
    'name a feed, {"platform": "feed", "url": "https://…"}, or what serves it in SMAP_CRAWLERS (recipes are in '
    "docs/smap.md), or ask for made-up posts by SMAP_SIMULATED=1"
)
ADDRESS = (
    'name one, {"platform": "news", "url": "https://…"}, or a place to search, '
    "SMAP_CRAWLERS='news=feed:https://host/search?q={keyword}&day={day}'"
)
EVERY_OTHER = "*"
CRAWL_PREFIX = f"{PREFIX}CRAWL_"
TOKEN_PREFIX = f"{PREFIX}TOKEN_"
_PAIR = re.compile(r"\s*(\*|[A-Za-z0-9][\w-]*)\s*=\s*([a-z][a-z0-9_-]*)(?::(.*))?\s*", re.DOTALL)
# A comma inside an address is not a separator: what follows one must begin like the next pair.
_NEXT = re.compile(r",(?=\s*(?:\*|[A-Za-z0-9][\w-]*)\s*=\s*[a-z][a-z0-9_-]*\s*(?::|,|$))")


@dataclass(frozen=True, slots=True)
class Choice:
    """A crawler by name, and what it is told."""

    crawler: str
    argument: str = ""

    @property
    def searches(self) -> bool:
        """Whether it has a place to look for keywords; a feed has none without an address, or if that is of a page."""
        if self.crawler != FEED:
            return True
        address = feed_address(self.argument)
        return bool(address) and TARGET not in address


def unserved_words(platform: str) -> str:
    """Why a platform is refused."""
    return f"nothing serves {platform}: such posts could only be made up"


def read_platforms(text: str) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(platform_name(name) for name in text.split(",") if name.strip()))
    except ValueError as error:
        raise CallerError(f"SMAP_PLATFORMS: {error}", "such as tiktok,facebook,youtube") from None


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


@dataclass(frozen=True, slots=True)
class CrawlWishes:
    """Settings of the collector."""

    platforms: tuple[str, ...] = setting(
        (),
        "searched if a project names none",
        variable="SMAP_PLATFORMS",
        parse=read_platforms,
        without="those that `SMAP_CRAWLERS` has a place to search for; simulated: `tiktok,facebook,youtube`",
    )
    crawlers: Mapping[str, Choice] = setting(
        {},
        "who serves which platform, see above",
        variable="SMAP_CRAWLERS",
        parse=read_choices,
        without="addresses of feeds",
    )
    simulated: bool = setting(
        False, "1: platforms that nothing else serves are simulated, their posts made up", variable="SMAP_SIMULATED"
    )
    directory: Path | None = setting(
        None,
        "the one directory below which `file://` addresses may be read",
        variable="SMAP_CRAWL_DIR",
        parse=lambda text: Path(text).resolve(),
        without="none",
    )
    private: bool = setting(False, "1: addresses of this machine and of private networks may be fetched")
    interval_s: float = setting(1.0, "at least so long between two requests of a process to one host", low=0.0)
    timeout_s: float = setting(30.0, "for one request", low=0.1)
    bytes_max: int = setting(20_000_000, "most bytes of one answer", low=1_000)
    agent: str = setting("headrace/0.1", "who we say we are")
    attempts: int = setting(5, "tries of a task before it fails", low=1)
    backoff_s: float = setting(1.0, "the first pause between two tries, which then doubles", low=0.0)
    lanes: int = setting(8, "tasks at a time in one process", low=1, high=1_000)
    turn_s: float = setting(5.0, "after so long a task makes room for the next, and goes on later", low=0.0)
    hold_s: float = setting(15.0, "so long after a process was killed its tasks go to others", low=0.5)
    environment: Mapping[str, str] = whole_environment()

    @property
    def tokens(self) -> Mapping[str, str]:
        """What the headers of feeds may hold, by the names of their variables: no other variable can be named."""
        return {name: value for name, value in self.environment.items() if name.startswith(TOKEN_PREFIX)}

    def choice(self, platform: str) -> Choice | None:
        """What serves a platform. None: only a simulation could, and nobody asked for one."""
        chosen = self.crawlers.get(platform) or self.crawlers.get(EVERY_OTHER)
        if chosen is None and platform in FEEDS:
            chosen = Choice(FEED)
        return chosen or (Choice(SIMULATED) if self.simulated else None)

    @property
    def searched(self) -> tuple[str, ...]:
        """The platforms of a project that names none."""
        named = tuple(name for name, choice in self.crawlers.items() if name != EVERY_OTHER and choice.searches)
        return self.platforms or named or (SIMULATED_PLATFORMS if self.simulates else ())

    @property
    def simulates(self) -> bool:
        """Somebody asked for posts that are made up."""
        return self.simulated or any(choice.crawler == SIMULATED for choice in self.crawlers.values())

    def unserved(self, platforms: Iterable[str]) -> tuple[str, ...]:
        """Those of the platforms that nothing serves, each once."""
        return tuple(name for name in dict.fromkeys(platforms) if self.choice(name) is None)

    def nowhere(self, platforms: Iterable[str]) -> tuple[str, ...]:
        """Those of the platforms that are served, and have no place to search for keywords, each once."""
        chosen = {name: self.choice(name) for name in platforms}
        return tuple(name for name, choice in chosen.items() if choice and not choice.searches)


def read_wishes(environment: Mapping[str, str]) -> CrawlWishes:
    """Understand the settings, or say which one is wrong."""
    return read(CrawlWishes, Sources(CRAWL_PREFIX, environment))
