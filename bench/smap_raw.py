"""What each server gives by itself, through the clients that the service uses: the floors of its speed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from headrace.ports import Event, Subscription
from headrace_smap.analytics import results
from headrace_smap.analytics.blob_fetcher import BlobFetcher
from headrace_smap.analytics.modules import pipeline
from headrace_smap.analytics.posts import HandledPost
from headrace_smap.analytics.work import Work, analyse
from headrace_smap.envelope import Collected, data_collected
from headrace_smap.parts import SmapParts

BATCH = 200
HOLD_S = 60.0
PROJECT = "bench"
Stored = Sequence[tuple[str, bytes]]


def events(paths: Sequence[str]) -> list[Event]:
    now = datetime.now(UTC)
    return [data_collected(Collected(PROJECT, path, "tiktok", now.isoformat()), now) for path in paths]


async def publish(parts: SmapParts, paths: Sequence[str]) -> float:
    """Events per second, each confirmed."""
    told = events(paths)
    began = time.perf_counter()
    for start in range(0, len(told), BATCH):
        await parts.bus.publish(told[start : start + BATCH])
    return len(told) / (time.perf_counter() - began)


async def consume(parts: SmapParts, queue: str, count: int) -> float:
    """Messages per second, received in batches and acknowledged."""
    await parts.bus.subscribe(Subscription(queue, ("data.collected",)))
    began, taken = time.perf_counter(), 0
    while taken < count:
        received = await parts.bus.receive(queue, "bench", BATCH, HOLD_S)
        await parts.bus.ack(received.deliveries)
        taken += len(received.deliveries)
    return taken / (time.perf_counter() - began)


async def get(parts: SmapParts, paths: Sequence[str], fetches: int) -> float:
    """Blobs per second."""
    fetcher = BlobFetcher(parts.blobs, fetches, 1_000_000)
    posts = [HandledPost(PROJECT, path, path, b"") for path in paths]
    began = time.perf_counter()
    for start in range(0, len(posts), BATCH):
        await fetcher.small(posts[start : start + BATCH])
    if any(post.raw is None for post in posts):
        raise RuntimeError("a blob was not read")
    return len(posts) / (time.perf_counter() - began)


async def upsert(parts: SmapParts, stored: Stored) -> float:
    """Rows per second, in statements of a batch each, four at a time as the lanes of the service are."""
    modules, now = pipeline(["nothing"]), datetime.now(UTC)
    steps = []
    for start in range(0, len(stored), BATCH):
        posts = [HandledPost(PROJECT, path, path, b"") for path, _ in stored[start : start + BATCH]]
        works = [Work(PROJECT, path, raw) for path, raw in stored[start : start + BATCH]]
        for post, (found, _) in zip(posts, analyse(modules, works, now), strict=True):
            post.found = found
        steps += results.rows(posts)
    waiting = iter(steps)

    async def lane() -> None:
        for step in waiting:
            await parts.database.transact(step)

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(4)))
    return len(stored) / (time.perf_counter() - began)


def compute(stored: Stored, names: Sequence[str]) -> float:
    """Posts per second through the modules, on one core."""
    modules = pipeline(names)
    modules.warm()
    works = [Work(PROJECT, path, raw, keywords=("VinFast", "VF3")) for path, raw in stored]
    analyse(modules, works[:BATCH], datetime.now(UTC))
    began = time.process_time()
    outcomes = analyse(modules, works, datetime.now(UTC))
    if any(fault for _, fault in outcomes):
        raise RuntimeError("a post was not analysed")
    return len(works) / (time.process_time() - began)
