"""The service on real servers: processes are killed, servers go away, answers are lost; the account is exact."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from smap_analytics_child import Workers
from smap_analytics_desk import Desk, open_desk, topics
from smap_posts import PROJECT, install_deadly, message, post
from waiting import eventually

from headrace.ports import Event, Subscription
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.s3 import S3Server
from headrace_smap.envelope import ANALYSIS_FINISHED, ANALYTICS_QUEUE, DATA_COLLECTED, JOB_COMPLETED
from headrace_smap.frame import FRAME

# `make torture` asks for many times as much.
TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
POSTS = 240 * TIMES
KILLS = 5 * TIMES
END_S_MAX = 120.0 * TIMES
EVERY_BAD = 25
CROWDED_POSTS = 20_000 if TIMES > 1 else 1_500
LANES = {"SMAP_WORKERS": "2", "SMAP_PREFETCH": "20", "SMAP_ANALYSTS": "0", "SMAP_RECONCILE_S": "0.5"}
Start = Callable[..., Workers]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """So many processes with this environment; what they said is shown with a test that failed."""
    started: list[Workers] = []

    def workers(environment: dict[str, str], count: int) -> Workers:
        started.append(Workers(environment, count, tmp_path / "workers.log"))
        return started[-1]

    yield workers
    for each in started:
        each.stop()
        print(each.said())


async def prepare(desk: Desk, count: int, **more: bytes) -> None:
    """A sealed project whose messages wait in the queue, one in ten of them twice and none in its place."""
    await desk.parts.bus.subscribe(Subscription(ANALYTICS_QUEUE, (DATA_COLLECTED,)))
    blobs = {f"p{number}": b"{" if number % EVERY_BAD == 0 else post(id=str(number)) for number in range(count)}
    await desk.store(**blobs, **more)
    await desk.seal()
    chance = random.Random(count)
    told = desk.paths + chance.sample(desk.paths, len(desk.paths) // 10)
    chance.shuffle(told)
    events = [Event(f"evt_{number}", DATA_COLLECTED, message(path)) for number, path in enumerate(told)]
    for first in range(0, len(events), 500):
        await desk.parts.bus.publish(events[first : first + 500])


async def done(desk: Desk) -> int:
    found = await desk.parts.ledger.tally(PROJECT)
    return found.done if found else 0


async def check_exact(desk: Desk, count: int, errors: int) -> None:
    """Everything was counted once, told, and announced under one id."""
    told: list[Event] = []

    async def announced() -> bool:
        told.extend(await desk.told())
        return topics(told) == {ANALYSIS_FINISHED: count - errors, JOB_COMPLETED: 1}

    await eventually(announced, lambda: f"all is told: {topics(told)}", END_S_MAX)
    assert await desk.progress() == ("DONE", count, count, errors)
    assert len(await desk.items()) == min(count, 1_000)
    assert len({letter.event_id for letter in await desk.letters()}) == errors


def bad(count: int) -> int:
    return len(range(0, count, EVERY_BAD))


async def test_two_processes_killed_in_a_loop_lose_and_double_nothing(
    real_environment: dict[str, str], start: Start
) -> None:
    async with open_desk(FRAME.load(real_environment)) as desk:
        await prepare(desk, POSTS)
        workers = start(real_environment | LANES, 2)
        for number in range(KILLS):
            before = await done(desk)

            async def moved(before: int = before) -> bool:
                return await done(desk) > before

            if before < POSTS - 40:
                await eventually(moved, f"posts are counted after {number} kills", END_S_MAX)
            workers.kill(number % 2)
        await check_exact(desk, POSTS, bad(POSTS))
        assert workers.deaths >= KILLS


async def test_a_hundred_workers_in_four_processes_count_exactly(
    real_environment: dict[str, str], start: Start
) -> None:
    async with open_desk(FRAME.load(real_environment)) as desk:
        await prepare(desk, CROWDED_POSTS)
        crowd = {"SMAP_WORKERS": "25", "SMAP_PREFETCH": "10", "SMAP_MODULES": "nothing"}
        start(real_environment | LANES | crowd, 4)
        await check_exact(desk, CROWDED_POSTS, bad(CROWDED_POSTS))


async def test_a_post_that_kills_its_process_is_counted_and_the_others_are_done(
    real_environment: dict[str, str], start: Start, tmp_path: Path
) -> None:
    async with open_desk(FRAME.load(real_environment)) as desk:
        await prepare(desk, 60, poison=post(text="die"))
        workers = start(real_environment | LANES | install_deadly(tmp_path / "installed"), 1)

        async def ended() -> bool:
            workers.replace_dead()
            return (await desk.progress())[0] == "DONE"

        await eventually(ended, "the project ends", END_S_MAX)
        await check_exact(desk, 61, bad(60) + 1)
        assert (await desk.rules())["raw/poison.json"] == "worker_lost"
        assert workers.deaths >= 1


async def test_s3_away_for_a_while_fails_no_post(
    real_environment: dict[str, str], start: Start, s3_server: S3Server
) -> None:
    async with open_desk(FRAME.load(real_environment)) as desk:
        await prepare(desk, 150)
        workers = start(real_environment | LANES | {"SMAP_PREFETCH": "5"}, 1)
        await eventually(lambda: done(desk), "the first posts are counted", END_S_MAX)
        s3_server.kill()
        await eventually(lambda: "batch.failing" in workers.said(), "somebody waits for blobs", END_S_MAX)
        s3_server.start()
        await check_exact(desk, 150, bad(150))


@pytest.mark.parametrize("cut", ["EVALSHA", "basic.publish"])
async def test_an_answer_that_is_lost_costs_nothing(
    cut: str, real_environment: dict[str, str], start: Start, fault_proxy: Callable[[str], Proxy]
) -> None:
    name, pattern = {
        "EVALSHA": ("SMAP_REDIS_URL", b"EVALSHA"),
        "basic.publish": ("SMAP_AMQP_URL", ANALYSIS_FINISHED.encode()),
    }[cut]
    proxy = fault_proxy(real_environment[name])
    async with open_desk(FRAME.load(real_environment)) as desk:
        await prepare(desk, 150)
        for _ in range(3):
            proxy.cut_reply_to(pattern)
        start(real_environment | LANES | {name: proxy.url}, 1)
        await check_exact(desk, 150, bad(150))
        assert proxy.cuts >= 1
