"""Services of somebody else, written from the specification alone: none of headrace is imported here.

    python smap_foreign.py project|collector|analytics|insight

Each reads SMAP_AMQP_URL, SMAP_REDIS_URL, SMAP_S3_URL and FOREIGN_… from the environment, says `ready` when it listens
and serves until it is killed. They are as careful as the text asks for, and no more.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import urlsplit

import aio_pika
import obstore
import redis
from aio_pika.abc import AbstractExchange, AbstractIncomingMessage
from obstore.store import S3Store

WEEK_S = 604_800


def state() -> redis.Redis:
    return redis.Redis.from_url(os.environ["SMAP_REDIS_URL"], decode_responses=True)


def bucket() -> S3Store:
    place = urlsplit(os.environ["SMAP_S3_URL"])
    return S3Store(
        place.path.strip("/"),
        endpoint=f"{place.scheme}://{place.netloc}",
        access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
        secret_access_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def key_of(project: str) -> str:
    return f"smap:proj:{project}"


def begin(project: str) -> None:
    """Step 1: the state of a new project."""
    pipe = state().pipeline()
    pipe.hset(key_of(project), mapping={"status": "INITIALIZING", "total": 0, "done": 0, "errors": 0})
    pipe.expire(key_of(project), WEEK_S)
    pipe.execute()


def mark(project: str, failed: bool, careful: bool) -> bool:
    """Step 3: count one, and say whether the line was crossed. `careful` also minds §4.1."""
    board, key = state(), key_of(project)
    done = int(board.hincrby(key, "done", 1))
    if failed:
        board.hincrby(key, "errors", 1)
    total = int(board.hget(key, "total") or 0)
    status = board.hget(key, "status")
    if total <= 0 or done < total or status == "DONE" or (careful and status == "CRAWLING"):
        return False
    board.hset(key, "status", "DONE")
    return True


async def exchange_of(connection: aio_pika.abc.AbstractConnection) -> AbstractExchange:
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=20)
    return await channel.declare_exchange("smap.events", aio_pika.ExchangeType.TOPIC, durable=True)


async def tell(exchange: AbstractExchange, topic: str, document: dict[str, Any]) -> None:
    await exchange.publish(aio_pika.Message(json.dumps(document).encode()), routing_key=topic)


async def project(exchange: AbstractExchange) -> None:
    """Creates the projects it is told on stdin, one JSON object per line."""
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        payload = json.loads(line)
        begin(payload["project_id"])
        await tell(exchange, "project.created", {"event_id": "evt_001", "timestamp": "now", "payload": payload})


async def collector(exchange: AbstractExchange, message: AbstractIncomingMessage) -> None:
    """Steps 2 and 4.1. FOREIGN_POSTS posts each; FOREIGN_SEAL=no stops after step 2."""
    payload = json.loads(message.body)["payload"]
    name, count = payload["project_id"], int(os.environ.get("FOREIGN_POSTS", "30"))
    board, store = state(), bucket()
    # The total becomes known in two parts, as when a search goes on while the first posts are on their way.
    for known, start in ((count // 2, 0), (count, count // 2)):
        board.hset(key_of(name), "total", known)
        board.hset(key_of(name), "status", "CRAWLING")
        for number in range(start, known):
            path = f"raw/tiktok/{name}_{number}.json"
            post = {"id": f"vid_{number}", "platform": "tiktok", "text": f"Xe VF3 rất đẹp, bài số {number}"}
            await obstore.put_async(store, path, json.dumps(post).encode())
            told = {"project_id": name, "platform": "TIKTOK", "minio_path": path, "crawled_at": "..."}
            await tell(exchange, "data.collected", {"event_id": "evt_002", "payload": told})
    if os.environ.get("FOREIGN_SEAL", "yes") == "yes":
        board.hset(key_of(name), "status", "PROCESSING_WAIT")


async def analytics(exchange: AbstractExchange, message: AbstractIncomingMessage) -> None:
    """Step 3, one post at a time. FOREIGN_CAREFUL=no does not mind §4.1."""
    payload = json.loads(message.body)["payload"]
    failed = False
    try:
        blob = await obstore.get_async(bucket(), payload["minio_path"])
        json.loads(bytes(await blob.bytes_async()))
    except (FileNotFoundError, ValueError):
        failed = True
    if mark(payload["project_id"], failed, os.environ.get("FOREIGN_CAREFUL", "yes") == "yes"):
        await tell(exchange, "job.completed", {"project_id": payload["project_id"]})


async def insight(_: AbstractExchange, message: AbstractIncomingMessage) -> None:
    """Step 4 of a reader that knows the flat form only: it says which project is ready."""
    print(json.dumps({"ready": json.loads(message.body)["project_id"]}), flush=True)


LISTENERS = {
    "collector": (collector, "project.created", "foreign.collector"),
    "analytics": (analytics, "data.collected", os.environ.get("FOREIGN_QUEUE", "foreign.analytics")),
    "insight": (insight, "job.completed", "foreign.insight"),
}


async def main(name: str) -> None:
    connection = await aio_pika.connect(os.environ["SMAP_AMQP_URL"])
    exchange = await exchange_of(connection)
    if name == "project":
        await project(exchange)
        return
    handle, topic, queue_name = LISTENERS[name]
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=20)
    queue = await channel.declare_queue(queue_name, durable=True)
    await queue.bind("smap.events", routing_key=topic)
    async with queue.iterator() as messages:
        print("ready", flush=True)
        async for message in messages:
            async with message.process():
                await handle(exchange, message)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
