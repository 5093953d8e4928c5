"""The queue `analytics.errors` holds the failures of now: a retry does not double it, a deletion leaves nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from smap_analytics_desk import Desk, open_desk
from smap_posts import PROJECT, delivery, post

from headrace.ports import Event, Subscription
from headrace_smap.envelope import DATA_COLLECTED, ERRORS_QUEUE
from headrace_smap.letters.error_queue import TAKE_S_MAX, LetterCounts, StoreLetters, letter_depth, open_letters
from headrace_smap.letters.sweeper import LOOKS_BETWEEN, LetterSweeper
from headrace_smap.project.operations import ProjectOperations, desk_of
from headrace_smap.settings import SmapSettings

EAR = "ear"


@pytest.fixture(params=["embedded", "real"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    async with open_desk(request.getfixturevalue(request.param)) as desk:
        await desk.parts.bus.subscribe(Subscription(EAR, (DATA_COLLECTED,)))
        yield desk


def operations(desk: Desk) -> ProjectOperations:
    return desk_of(replace(desk.parts, registry=CollectorRegistry()))


def sweeper(desk: Desk) -> LetterSweeper:
    return LetterSweeper(replace(desk.parts, registry=CollectorRegistry()))


async def failed(desk: Desk) -> None:
    """Three posts, two of which fail."""
    await desk.store(good=post(id="1"), x=b"{", y=b"{")
    await desk.seal()
    await desk.handler().handle(desk.deliveries())


async def retried(desk: Desk, seed: str) -> None:
    """Failed posts are tried again, by an analysis that hears of them on the bus."""
    project = operations(desk)
    count = await project.retrier.retry(PROJECT, seed)
    await project.relay.relay()
    heard: list[Event] = []
    async with asyncio.timeout(60):
        while len(heard) < count:
            received = await desk.parts.bus.receive(EAR, "test", 100, 30.0)
            await desk.parts.bus.ack(received.deliveries)
            heard += [each.event for each in received.deliveries]
    await desk.handler().handle([delivery(event.body, number) for number, event in enumerate(heard, 1)])


async def counts(desk: Desk) -> LetterCounts:
    async with open_letters(desk.parts) as queue:
        return await queue.counts()


async def test_letters_are_counted_and_stay(desk: Desk) -> None:
    await failed(desk)
    for _ in range(2):
        found = await counts(desk)
        assert (found.depth, found.seen, found.stale, found.unknown) == (2, 2, 0, 0)
        assert (found.projects, sum(found.rules.values())) == ({PROJECT: 2}, 2)
    async with open_letters(desk.parts) as queue:
        assert {letter.item for letter in await queue.letters()} == {"raw/x.json", "raw/y.json"}
        assert await queue.letters("another") == []


async def test_a_retry_leaves_no_letter_of_what_went_well_and_one_of_what_failed_again(desk: Desk) -> None:
    await failed(desk)
    await desk.parts.blobs.put("raw/x.json", post(id="2"))
    await retried(desk, "first")
    before = await counts(desk)
    assert (before.depth, before.stale, before.projects) == (3, 2, {PROJECT: 1})
    sweeping = sweeper(desk)
    assert await sweeping.look() == 2
    after = await counts(desk)
    assert (after.depth, after.stale, after.projects) == (1, 0, {PROJECT: 1})
    assert await sweeping.look() == 0
    await retried(desk, "second")
    assert (await letter_depth(desk.parts.bus), await sweeping.look()) == (2, 1)


async def test_a_deletion_leaves_no_letter(desk: Desk) -> None:
    await failed(desk)
    assert await operations(desk).deleter.delete(PROJECT)
    assert await sweeper(desk).look() == 2
    assert await letter_depth(desk.parts.bus) == 0


async def test_stale_letters_are_found_though_there_are_no_more_than_failed_posts(desk: Desk) -> None:
    """Somebody has taken out the letter of a post that is still failed."""
    await failed(desk)
    await desk.parts.blobs.put("raw/x.json", post(id="2"))
    await retried(desk, "first")
    async with open_letters(desk.parts) as queue:
        assert await queue.remove([each for each in await queue.letters() if each.item == "raw/y.json"]) == 2
    found = await counts(desk)
    assert (found.depth, found.stale) == (1, 1)
    sweeping = sweeper(desk)
    assert sum([await sweeping.look() for _ in range(LOOKS_BETWEEN)]) == 1
    assert await letter_depth(desk.parts.bus) == 0


async def test_letters_of_others_are_left_alone(desk: Desk) -> None:
    """Nobody here knows the post; it may also be one that is counted in the next moment."""
    await failed(desk)
    theirs = json.dumps({"project_id": "theirs", "minio_path": "raw/z.json"}).encode()
    strays = [delivery(b"not json", 1), delivery(b"{}", 2)]
    await desk.handler().handle(strays)
    bus = desk.parts.bus
    send = getattr(bus, "send", None)
    letter = Event("theirs-1", DATA_COLLECTED if send else ERRORS_QUEUE, theirs, "theirs")
    await (send(ERRORS_QUEUE, [letter]) if send else bus.publish([letter]))
    sweeping = sweeper(desk)
    assert [await sweeping.look() for _ in range(2)] == [0, 0]
    found = await counts(desk)
    assert (found.depth, found.stale, found.unknown) == (5, 0, 3)
    await desk.parts.blobs.put("raw/x.json", post(id="2"))
    await retried(desk, "first")
    assert await sweeping.look() == 2
    assert await letter_depth(bus) == 4


async def test_the_depth_of_the_queue_is_a_metric(desk: Desk) -> None:
    await failed(desk)
    registry = CollectorRegistry()
    sweeping = LetterSweeper(replace(desk.parts, registry=registry))
    await sweeping.look()
    assert registry.get_sample_value("headrace_smap_letters") == 2
    await operations(desk).deleter.delete(PROJECT)
    await sweeping.look()
    assert registry.get_sample_value("headrace_smap_letters") == 0
    assert registry.get_sample_value("headrace_smap_letters_removed_total") == 2


async def test_letters_whose_reader_was_killed_are_given_back_before_their_hold_passes(embedded: SmapSettings) -> None:
    """They come one at a time, and of thousands the first would be lost again before the last was read."""
    async with open_desk(embedded) as desk:
        await failed(desk)
        assert len((await desk.parts.bus.receive(ERRORS_QUEUE, "killed", 100, 0.0)).deliveries) == 2
        assert [len(await StoreLetters(desk.parts.bus, s).read()) for s in (0.0, TAKE_S_MAX, 0.0)] == [1, 2, 1]
        found = await desk.parts.bus.receive(ERRORS_QUEUE, "test", 100, 60.0)
        assert [(each.alone, each.failures) for each in found.deliveries] == [(True, 0)]


def test_operators_count_show_and_purge(
    embedded: SmapSettings, headrace_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    async def prepare() -> None:
        async with open_desk(embedded) as desk:
            await failed(desk)

    asyncio.run(prepare())

    def said(*arguments: str) -> object:
        done = headrace_command("smap", "letters", *arguments, "--json", SMAP_HOME=str(embedded.home))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    found = said("counts")
    assert isinstance(found, dict)
    assert (found["depth"], found["stale"], found["projects"]) == (2, 0, {PROJECT: 2})
    letters = said("show", "--project", PROJECT, "--limit", "1")
    assert isinstance(letters, list)
    assert [(each["item"], each["stale"]) for each in letters] == [("raw/x.json", False)]
    refused = headrace_command("smap", "letters", "purge", SMAP_HOME=str(embedded.home))
    assert (refused.returncode != 0, "--all" in refused.stderr) == (True, True)
    assert said("purge", "--stale") == {"removed": 0}
    assert said("purge", "--project", PROJECT) == {"removed": 2}
    assert said("counts") == {"depth": 0, "seen": 0, "stale": 0, "unknown": 0, "rules": {}, "projects": {}}
