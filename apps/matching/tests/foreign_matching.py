"""Workers as somebody else writes them, from the specification and the data contract alone: RabbitMQ and HTTP, and
nothing of this project. They start from the `.completed` events of the phases before theirs, in whatever order."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections import defaultdict
from contextlib import AsyncExitStack

import aio_pika
import httpx

EXCHANGE = "matching.events"


def new_uuid7() -> str:
    """By RFC 9562: 48 bits of milliseconds, version 7, variant 10."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    number = number & ~(0x3 << 62) | 0x2 << 62
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class ForeignWorker:
    """Waits for all names of a barrier per job, then works, then says so."""

    queue = ""
    waits_for: tuple[str, ...] = ()

    def __init__(self, amqp_url: str, api_url: str) -> None:
        self.amqp_url, self.api_url = amqp_url, api_url
        self.came: dict[str, set[str]] = defaultdict(set)
        self.done: set[str] = set()

    async def run(self, ready: asyncio.Event) -> None:
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(await aio_pika.connect_robust(self.amqp_url))
            self.http = await stack.enter_async_context(httpx.AsyncClient(base_url=self.api_url, timeout=60))
            channel = await connection.channel()
            await channel.set_qos(prefetch_count=10)
            self.exchange = await channel.declare_exchange(EXCHANGE, "topic", durable=True)
            queue = await channel.declare_queue(self.queue, durable=True)
            for name in self.waits_for:
                await queue.bind(self.exchange, name)
            ready.set()
            async with queue.iterator() as messages:
                async for message in messages:
                    async with message.process():
                        await self.on_message(message.routing_key or "", json.loads(message.body))

    async def on_message(self, name: str, document: dict[str, str]) -> None:
        job = document["job_id"]
        self.came[job].add(name)
        if self.came[job] == set(self.waits_for) and job not in self.done:
            self.done.add(job)
            await self.work(job)

    async def publish(self, name: str, **fields: str) -> None:
        body = json.dumps({"event_id": new_uuid7(), **fields}).encode()
        await self.exchange.publish(aio_pika.Message(body, delivery_mode=2), name)

    async def pages(self, path: str, name: str, **params: str) -> list[dict]:  # type: ignore[type-arg]
        found = []
        while True:
            answer = await self.http.get(path, params=params)
            answer.raise_for_status()
            page = answer.json()
            found += page[name]
            if not page["next"]:
                return found
            params = {**params, "cursor": page["next"]}

    async def work(self, job: str) -> None:
        raise AssertionError("of a worker of its own kind")


class ForeignEmbedding(ForeignWorker):
    """The mean of the bytes at three places is its embedding, and one point its keypoints."""

    queue = "foreign.embedding"
    waits_for = ("products.collections.completed", "videos.collections.completed")

    async def work(self, job: str) -> None:
        for kind, word in (("image", "image"), ("keyframe", "video")):
            for asset in await self.pages(f"/jobs/{job}/assets", "assets", kind=kind):
                await self.one(job, asset, word)
            await self.publish(f"{word}.embeddings.completed", job_id=job)
            await self.publish(f"{word}.keypoints.completed", job_id=job)

    async def one(self, job: str, asset: dict[str, str], word: str) -> None:
        content = (await self.http.get(asset["content_url"])).content
        base = f"/jobs/{job}/assets/{asset['asset_id']}"
        vector = {"model": "bytes", "vector": [content[0] / 255, content[1] / 255, content[2] / 255]}
        (await self.http.put(f"{base}/embedding", json=vector)).raise_for_status()
        await self.publish(f"{word}.embedding.ready", job_id=job, asset_id=asset["asset_id"])
        array = {"dtype": "uint8", "shape": [1, 4], "base64": "AAAAAA=="}
        points = {"model": "one", "points": [[0.0, 0.0, 1.0, 0.0]], "descriptors": array}
        (await self.http.put(f"{base}/keypoints", json=points)).raise_for_status()
        await self.publish(f"{word}.keypoint.ready", job_id=job, asset_id=asset["asset_id"])


class ForeignMatcher(ForeignWorker):
    """Compares every image with every keyframe by the distance of their vectors."""

    queue = "foreign.matcher"
    waits_for = (
        "image.embeddings.completed",
        "video.embeddings.completed",
        "image.keypoints.completed",
        "video.keypoints.completed",
    )

    async def work(self, job: str) -> None:
        owners = {each["asset_id"]: each for each in await self.pages(f"/jobs/{job}/assets", "assets")}
        images = await self.pages(f"/jobs/{job}/embeddings", "embeddings", kind="image")
        frames = await self.pages(f"/jobs/{job}/embeddings", "embeddings", kind="keyframe")
        best: dict[tuple[str, str], tuple[float, str, str]] = {}
        for image in images:
            for frame in frames:
                score = 1 - math.dist(image["vector"], frame["vector"])
                pair = owners[image["asset_id"]]["product_id"], owners[frame["asset_id"]]["video_id"]
                best[pair] = max(best.get(pair, (-1.0, "", "")), (score, image["asset_id"], frame["asset_id"]))
        for (product, video), (score, image_id, frame_id) in best.items():
            if score > 0.99:
                found = {"img_id": image_id, "frame_id": frame_id, "score_pair": score}
                body = {"score": score, "best_pair": found}
                (await self.http.put(f"/jobs/{job}/matches/{product}/{video}", json=body)).raise_for_status()
        await self.publish("matchings.process.completed", job_id=job)
