"""What a crawler is given: the settings, and a polite way to the web that all crawlers of a process share."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_smap.collector.crawlers.polite_fetcher import PoliteFetcher
from headrace_smap.collector.wishes import CrawlWishes


@dataclass(frozen=True, slots=True)
class CrawlKit:
    """`await kit.fetcher.fetch(url)` keeps the distance between requests to a host, obeys robots.txt, and refuses what
    must not be reached."""

    wishes: CrawlWishes
    fetcher: PoliteFetcher
