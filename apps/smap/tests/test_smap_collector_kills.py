"""Collector processes on real servers are killed and frozen in mid-crawl: nothing is lost and nothing doubled."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from collector_running import LISTENER, blobs_count, order, report, sealed, told
from waiting import eventually, until

from headrace.ports import Subscription
from headrace_smap.frame import FRAME
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.values import SEALED

TIMES = int(os.environ.get("HEADRACE_TORTURE", "1"))
KEYWORDS = [f"word-{number}" for number in range(6)]
POSTS = 120 * TIMES
KILLS = 2 * TIMES
HOLD_S = 1.5
WISHES = {
    "SMAP_CRAWLERS": f"*=simulated:posts={POSTS}&page=10&latency=0.05&overlap=0.1",
    "SMAP_CRAWL_HOLD_S": str(HOLD_S),
    "SMAP_CRAWL_TURN_S": "0.5",
    "SMAP_CRAWL_LANES": "4",
}


class Collectors:
    """Collector services, each a process of its own; one that is killed is replaced."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment = {**os.environ, **environment}
        self._folder, self._number = folder, 0
        self._running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start(self) -> None:
        self._number += 1
        log = self._folder / f"collector-{self._number}.log"
        with log.open("wb") as file:
            command = [sys.executable, str(Path(__file__).with_name("collector_child.py"))]
            child = subprocess.Popen(
                command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._running.append((child, log))

    def wait_ready(self) -> None:
        for child, log in self._running:
            until(lambda log=log: b"is ready" in log.read_bytes(), lambda log=log: log.read_text()[-2_000:], 60)
            assert child.poll() is None

    def kill_one(self) -> None:
        child, _ = self._running.pop(0)
        child.kill()
        child.wait()

    @contextmanager
    def one_frozen(self) -> Iterator[None]:
        """One of them stands still while the block runs, and then goes on as if nothing had happened."""
        child, _ = self._running[0]
        child.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            child.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        for child, _ in self._running:
            child.kill()
            child.wait()


@pytest.fixture
def collectors(real_environment: dict[str, str], tmp_path: Path) -> Iterator[Collectors]:
    started = Collectors({**real_environment, **WISHES}, tmp_path)
    yield started
    started.stop()


async def test_collectors_that_are_killed_and_frozen_lose_and_double_nothing(
    real_environment: dict[str, str], collectors: Collectors
) -> None:
    async with open_parts(FRAME.load({**real_environment, **WISHES})) as parts:
        await parts.bus.subscribe(Subscription(LISTENER, ("data.collected",)))
        for _ in range(2):
            collectors.start()
        await asyncio.to_thread(collectors.wait_ready)
        await order(parts, "killed", keywords=KEYWORDS, targets=[{"platform": "tiktok"}])
        part = POSTS * len(KEYWORDS) // (KILLS + 4)
        for kill in range(1, KILLS + 1):
            await reached(parts, kill * part)
            collectors.kill_one()
            collectors.start()
        await asyncio.to_thread(collectors.wait_ready)
        with collectors.one_frozen():
            await reached(parts, (KILLS + 1) * part)
            await asyncio.sleep(HOLD_S * 1.5)
        total = (await sealed(parts, "killed", 60.0 * TIMES)).total
        tasks = await report(parts, "killed")
        assert {state for _, state, _, _ in tasks} == {"done"}
        assert sum(posts for _, _, posts, _ in tasks) == total
        assert await blobs_count(parts, "killed") == total
        assert len(await told(parts)) == total
        assert POSTS * len(KEYWORDS) * 0.8 < total <= POSTS * len(KEYWORDS)


async def reached(parts: SmapParts, posts: int) -> None:
    """So many posts are found, and the crawl goes on."""

    async def look() -> bool:
        standing = await parts.ledger.tally("killed")
        assert standing is None or standing.status not in SEALED, "it was over before anybody was killed"
        return standing is not None and standing.total > posts

    await eventually(look, f"{posts} posts are found", 60)
