"""Which crawler serves which platform. A crawler is opened when its first task comes, and shared by all that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points

from headrace.errors import CallerError
from headrace_smap.collector.crawlers.feed import open_feed
from headrace_smap.collector.crawlers.kit import CrawlKit
from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.crawlers.simulated import open_simulated
from headrace_smap.collector.tasks import Crawler, CrawlFailed
from headrace_smap.collector.wishes import FEED, SIMULATED, WAY_OUT, Choice, CrawlWishes, unserved_words

GROUP = "headrace.smap.crawlers"
Open = Callable[[str, CrawlKit], Crawler]
SHIPPED: Mapping[str, Open] = {FEED: open_feed, SIMULATED: open_simulated}


class Crawlers:
    """The crawlers of one process, by platform."""

    def __init__(self, wishes: CrawlWishes, shipped: Mapping[str, Open] = SHIPPED) -> None:
        self._wishes, self._shipped = wishes, shipped
        self._kit = CrawlKit(wishes, PoliteFetcher(wishes))
        self._open: dict[Choice, Crawler] = {}

    def check(self) -> None:
        """Open everything that is chosen, so that a wrong setting is told at the start and not by the first task."""
        for choice in self._wishes.crawlers.values():
            self._opened(choice)

    def serving(self, platform: str) -> Crawler:
        """The crawler of a platform; `CrawlFailed` if nobody serves it."""
        choice = self._wishes.choice(platform)
        if choice is None:
            raise CrawlFailed(f"{unserved_words(platform)}. {WAY_OUT}")
        return self._opened(choice)

    async def close(self) -> None:
        while self._open:
            _, crawler = self._open.popitem()
            await crawler.close()
        await self._kit.fetcher.close()

    def _opened(self, choice: Choice) -> Crawler:
        if choice not in self._open:
            self._open[choice] = self._opener(choice.crawler)(choice.argument, self._kit)
        return self._open[choice]

    def _opener(self, name: str) -> Open:
        if name in self._shipped:
            return self._shipped[name]
        registered: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
        if name not in registered:
            known = ", ".join(sorted({*self._shipped, *registered}))
            raise CallerError(f"SMAP_CRAWLERS: there is no crawler {name!r}", f"crawlers: {known}")
        opener: Open = registered[name].load()
        return opener
