"""Everything the project service can do, put together once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.apps.smap.accounting import Accountant
from headrace.apps.smap.collector.wishes import read_wishes
from headrace.apps.smap.completions import utc_now
from headrace.apps.smap.project.creating import Creator
from headrace.apps.smap.project.deleting import Deleter
from headrace.apps.smap.project.keys import DatabaseKeys
from headrace.apps.smap.project.outbox import Relay
from headrace.apps.smap.project.reading import Reader
from headrace.apps.smap.project.retrying import Retrier
from headrace.apps.smap.project.scheduling import Scheduler
from headrace.apps.smap.world import World


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the routes find what they need."""

    world: World
    platforms: tuple[str, ...]
    accountant: Accountant
    relay: Relay
    creator: Creator
    reader: Reader
    retrier: Retrier
    scheduler: Scheduler
    deleter: Deleter
    keys: DatabaseKeys


def desk_of(world: World, now: Callable[[], datetime] = utc_now) -> Desk:
    """A desk in this world; `now` is its clock."""
    accountant = Accountant(world, now)
    relay = Relay(world, accountant, now)
    creator = Creator(world, accountant, relay, now)
    return Desk(
        world=world,
        platforms=read_wishes(world.settings.environment).platforms,
        accountant=accountant,
        relay=relay,
        creator=creator,
        reader=Reader(world, accountant),
        retrier=Retrier(world, relay, now),
        scheduler=Scheduler(world, creator, now),
        deleter=Deleter(world, accountant, now),
        keys=DatabaseKeys(world.database, now),
    )
