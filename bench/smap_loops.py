"""What the analytics service is measured against: the plain way that the specification shows.

One message at a time: read the post, upsert one row, raise the counter, ask for the total, ask for the status, tell,
acknowledge. Nothing is pipelined and nothing is shared. It is given what makes it fast: its messages come ahead, its
publishing waits for no confirmation, and the row it writes is shorter than ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aio_pika
import psycopg
import redis

PREFETCH = 200
UPSERT = """
INSERT INTO post_analytics (project_id, minio_path, post_id, platform, text, likes, sentiment, risk, analyzed_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (project_id, minio_path) DO UPDATE
   SET post_id = EXCLUDED.post_id, platform = EXCLUDED.platform, text = EXCLUDED.text, likes = EXCLUDED.likes,
       sentiment = EXCLUDED.sentiment, risk = EXCLUDED.risk, analyzed_at = EXCLUDED.analyzed_at
"""
Fetch = Callable[[str], bytes]
Client = Any


@dataclass(frozen=True, slots=True)
class Places:
    """Where the servers are; `fetch` gives the bytes of a post."""

    amqp_url: str
    redis_url: str
    pg_dsn: str
    queue: str
    fetch: Fetch


async def one_by_one(places: Places, count: int) -> int:
    """Take so many messages from the queue; how many finish lines were crossed."""
    connection = await aio_pika.connect(places.amqp_url)
    client: Client = redis.Redis.from_url(places.redis_url, decode_responses=True)
    crossed, taken = 0, 0
    with psycopg.connect(places.pg_dsn, autocommit=True, prepare_threshold=0) as database:
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            await channel.set_qos(prefetch_count=PREFETCH)
            exchange = await channel.get_exchange("smap.events")
            queue = await channel.get_queue(places.queue)
            async with queue.iterator() as messages:
                async for message in messages:
                    payload = json.loads(message.body)["payload"]
                    _store(database, payload, json.loads(places.fetch(payload["minio_path"])))
                    await _tell(exchange, "analysis.finished", payload)
                    if _count_one(client, payload["project_id"]):
                        await _tell(exchange, "job.completed", {"project_id": payload["project_id"]})
                        crossed += 1
                    await message.ack()
                    taken += 1
                    if taken == count:
                        break
    client.close()
    return crossed


def settle_each(places: Places, bodies: Sequence[bytes]) -> int:
    """From the message in hand to the counted post, and no further; how many finish lines were crossed."""
    client: Client = redis.Redis.from_url(places.redis_url, decode_responses=True)
    crossed = 0
    with psycopg.connect(places.pg_dsn, autocommit=True, prepare_threshold=0) as database:
        for body in bodies:
            payload = json.loads(body)["payload"]
            _store(database, payload, json.loads(places.fetch(payload["minio_path"])))
            crossed += _count_one(client, payload["project_id"])
    client.close()
    return crossed


def _store(database: psycopg.Connection[Any], payload: dict[str, Any], post: dict[str, Any]) -> None:
    likes = post["metrics"]["likes"]
    row = (payload["project_id"], payload["minio_path"], post["id"], post["platform"], post["text"], likes)
    database.execute(UPSERT, (*row, "neutral", "LOW", datetime.now(UTC)))


def _count_one(client: Client, project: str) -> bool:
    """Three questions, and between any two of them somebody else may have answered."""
    key = f"smap:proj:{project}"
    done = client.hincrby(key, "done", 1)
    total = int(client.hget(key, "total") or 0)
    if 0 < total <= done and client.hget(key, "status") != "DONE":
        client.hset(key, "status", "DONE")
        return True
    return False


async def _tell(exchange: aio_pika.abc.AbstractExchange, topic: str, payload: dict[str, Any]) -> None:
    body = json.dumps({"event_id": f"evt_{topic}", "payload": payload}).encode()
    await exchange.publish(aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT), topic)
