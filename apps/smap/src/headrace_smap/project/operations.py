"""Everything the project service can do, put together once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.tables import RequestKeys
from headrace_smap.collector.wishes import CrawlWishes, read_wishes
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.completions import utc_now
from headrace_smap.parts import SmapParts
from headrace_smap.project.announcer import HOLD_S, Announcer
from headrace_smap.project.creator import Creator
from headrace_smap.project.deleter import Deleter
from headrace_smap.project.reader import Reader
from headrace_smap.project.recrawls import Recrawls
from headrace_smap.project.retrier import Retrier
from headrace_smap.receivers import ReceiverBook


@dataclass(frozen=True, slots=True)
class ProjectOperations:
    """Where the routes find what they need."""

    parts: SmapParts
    wishes: CrawlWishes
    accountant: Accountant
    relay: Announcer
    creator: Creator
    reader: Reader
    retrier: Retrier
    recrawls: Recrawls
    deleter: Deleter
    keys: RequestKeys
    receivers: ReceiverBook


def desk_of(parts: SmapParts, now: Callable[[], datetime] = utc_now, hold_s: float = HOLD_S) -> ProjectOperations:
    """The operations on these parts; `now` is its clock, and its relay holds events for `hold_s` by the store's."""
    accountant = Accountant(parts, now)
    creator = Creator(parts, now)
    return ProjectOperations(
        parts=parts,
        wishes=read_wishes(parts.settings.environment),
        accountant=accountant,
        relay=Announcer(parts, accountant, hold_s),
        creator=creator,
        reader=Reader(parts, accountant),
        retrier=Retrier(parts, now),
        recrawls=Recrawls(parts, creator, now),
        deleter=Deleter(parts, accountant, now),
        keys=RequestKeys(parts.engine, now),
        receivers=ReceiverBook(parts.database),
    )
