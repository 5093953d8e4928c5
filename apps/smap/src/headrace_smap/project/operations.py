"""Everything the project service can do, put together once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.tables import RequestKeys
from headrace_smap.collector.wishes import read_wishes
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.completions import utc_now
from headrace_smap.project.announcer import HOLD_S, Announcer
from headrace_smap.project.creator import Creator
from headrace_smap.project.deleter import Deleter
from headrace_smap.project.reader import Reader
from headrace_smap.project.recrawls import Recrawls
from headrace_smap.project.retrier import Retrier
from headrace_smap.world import World


@dataclass(frozen=True, slots=True)
class ProjectOperations:
    """Where the routes find what they need."""

    world: World
    platforms: tuple[str, ...]
    accountant: Accountant
    relay: Announcer
    creator: Creator
    reader: Reader
    retrier: Retrier
    recrawls: Recrawls
    deleter: Deleter
    keys: RequestKeys


def desk_of(world: World, now: Callable[[], datetime] = utc_now, hold_s: float = HOLD_S) -> ProjectOperations:
    """A desk in this world; `now` is its clock, and its relay holds events for `hold_s` by the store's."""
    accountant = Accountant(world, now)
    creator = Creator(world, accountant, now)
    return ProjectOperations(
        world=world,
        platforms=read_wishes(world.settings.environment).platforms,
        accountant=accountant,
        relay=Announcer(world, accountant, hold_s),
        creator=creator,
        reader=Reader(world, accountant),
        retrier=Retrier(world, now),
        recrawls=Recrawls(world, creator, now),
        deleter=Deleter(world, accountant, now),
        keys=RequestKeys(world.engine, now),
    )
