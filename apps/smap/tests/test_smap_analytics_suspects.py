"""A post that ends the process which analyses it is found out; those beside it are not charged for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from smap_analytics_desk import Desk, Killed, good, open_desk
from smap_posts import PROJECT, nothing, post

from headrace.errors import Unreachable
from headrace.ports import Delivery
from headrace_smap.analytics.analysts import ThreadAnalyst
from headrace_smap.analytics.batch import read_batch
from headrace_smap.analytics.handler import Handler
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.posts import HandledPost
from headrace_smap.analytics.service import handler_of
from headrace_smap.analytics.suspects import ATTEMPTS_MAX, TOGETHER_MAX, Suspects
from headrace_smap.analytics.work import Outcome, Work
from headrace_smap.count.accountant import Accountant
from headrace_smap.settings import SmapSettings

POISON = b"kills"


class Poisonous:
    """A thread of this process analyses, and some posts end the process."""

    def __init__(self) -> None:
        self._analyst = ThreadAnalyst(nothing())

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        if any(POISON in work.raw for work in works):
            raise Killed
        return await self._analyst.run(works, limit_s)

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


@pytest.fixture
async def desk(embedded: SmapSettings) -> AsyncIterator[Desk]:
    async with open_desk(embedded) as opened:
        yield opened


def process(desk: Desk) -> Handler:
    """A new life, with a thread for the computing."""
    parts = replace(desk.parts, registry=CollectorRegistry())
    return handler_of(parts, Accountant(parts), Analysis(Poisonous(), 20.0))


async def lives(desk: Desk, deliveries: list[Delivery], most: int) -> int:
    """How many processes are lost until the batch is through."""
    for lost in range(most):
        again = [replace(each, deliveries=min(2, lost + 1)) for each in deliveries]
        try:
            await process(desk).handle(again)
        except Killed:
            continue
        return lost
    raise AssertionError(f"not through after {most} lost processes")


async def test_a_poison_post_ends_as_an_error_and_its_neighbours_are_done(desk: Desk) -> None:
    await desk.store(**good(5), poison=post(text="kills"))
    await desk.seal()
    # Once before anybody suspects it, and then as often as it may.
    assert await lives(desk, desk.deliveries(), 20) == 1 + ATTEMPTS_MAX
    assert await desk.rules() == {"raw/poison.json": "worker_lost"}
    assert await desk.progress() == ("DONE", 6, 6, 1)
    (letter,) = await desk.letters()
    assert (letter.headers["rule"], letter.headers["attempt"]) == ("worker_lost", str(1 + ATTEMPTS_MAX))
    charged = await desk.parts.database.rows("count_attempts", rows=_names(desk), charge="")
    assert charged == [(PROJECT, "raw/poison.json", ATTEMPTS_MAX)]


async def test_three_poison_posts_charge_no_neighbour(desk: Desk) -> None:
    poisons = {f"poison{number}": post(id=f"p{number}", text="kills") for number in range(3)}
    await desk.store(**good(6), **poisons)
    await desk.seal()
    # Together they cost the first lives; after that each dies alone for as often as it may.
    most = 1 + TOGETHER_MAX + 3 * ATTEMPTS_MAX
    assert await lives(desk, desk.deliveries(), 50) <= most
    assert await desk.rules() == {f"raw/{name}.json": "worker_lost" for name in poisons}
    assert await desk.progress() == ("DONE", 9, 9, 3)


async def test_a_batch_that_is_tried_again_in_the_same_life_is_charged_once(desk: Desk) -> None:
    suspects = Suspects(desk.parts.database, "this life")
    posts = read(desk, ["raw/a.json"])
    for _ in range(3):
        await suspects.begin(posts)
    other = Suspects(desk.parts.database, "another life")
    assert await attempts(desk, other) == {"raw/a.json": 1}
    assert await attempts(desk, suspects) == {"raw/a.json": 0}
    await other.begin(posts)
    assert await attempts(desk, Suspects(desk.parts.database, "a third")) == {"raw/a.json": 2}


class Waiting:
    """An analyst that cannot be had: its surroundings are to blame."""

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        raise Unreachable("not now")

    async def warm(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize("away", ["blobs", "analysts", "ledger"])
async def test_restarts_while_something_is_away_charge_nobody(desk: Desk, away: str) -> None:
    await desk.store(**good(2))
    await desk.seal()
    for _ in range(2 * ATTEMPTS_MAX):
        cut = {"blobs": Away(desk.parts.blobs, "get"), "ledger": Away(desk.parts.ledger, "settle")}
        parts = replace(desk.parts, registry=CollectorRegistry(), **{away: cut[away]} if away in cut else {})
        analysts = Waiting() if away == "analysts" else ThreadAnalyst(nothing())
        with pytest.raises(Unreachable):
            handler = handler_of(parts, Accountant(parts), Analysis(analysts, 20.0))
            await handler.handle(desk.deliveries(deliveries=2))
    await process(desk).handle(desk.deliveries(deliveries=2))
    assert await desk.rules() == {}
    assert await desk.progress() == ("DONE", 2, 2, 0)


class Unforgiving(Suspects):
    """Takes nothing back."""

    async def take_back(self, posts: Sequence[HandledPost]) -> None: ...


async def test_the_twin_that_takes_nothing_back_blames_a_post_for_restarts(desk: Desk) -> None:
    await desk.store(**good(1))
    await desk.seal()
    for life in range(ATTEMPTS_MAX):
        parts = replace(desk.parts, registry=CollectorRegistry())
        handler = handler_of(parts, Accountant(parts), Analysis(Waiting(), 20.0))
        handler._means = replace(handler._means, suspects=Unforgiving(parts.database, f"life {life}"))
        with pytest.raises(Unreachable):
            await handler.handle(desk.deliveries(deliveries=2))
    await process(desk).handle(desk.deliveries(deliveries=2))
    assert await desk.rules() == {"raw/good0.json": "worker_lost"}


class Away:
    """A part of which one call never works."""

    def __init__(self, part: Any, name: str) -> None:
        self._part, self._name = part, name

    def __getattr__(self, name: str) -> Any:
        if name not in (self._name, "answers"):
            return getattr(self._part, name)

        async def call(*arguments: object) -> None:
            raise Unreachable("away")

        return call


class Trusting(Suspects):
    """Charges nobody."""

    async def begin(self, posts: Sequence[HandledPost]) -> None: ...


async def test_the_twin_that_charges_nobody_is_killed_for_ever(desk: Desk) -> None:
    await desk.store(poison=post(text="kills"))
    await desk.seal()
    for _ in range(3 * ATTEMPTS_MAX):
        handler = process(desk)
        handler._means = replace(handler._means, suspects=Trusting(desk.parts.database, "life"))
        with pytest.raises(Killed):
            await handler.handle(desk.deliveries(deliveries=2))


def read(desk: Desk, paths: list[str]) -> list[HandledPost]:
    return read_batch(desk.deliveries(paths)).posts


def _names(desk: Desk) -> list[dict[str, str]]:
    return [{"project_id": PROJECT, "item": path} for path in desk.paths]


async def attempts(desk: Desk, suspects: Suspects) -> dict[str, int]:
    rows = await desk.parts.database.rows(
        "count_attempts", rows=[{"project_id": PROJECT, "item": "raw/a.json"}], charge=suspects._charge
    )
    return {item: count for _, item, count in rows}
