"""Workers that know the events and the data contract only, beside a manager on real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
from foreign_matching import ForeignEmbedding, ForeignMatcher, new_uuid7
from matching_content import PNG
from matching_world import MatchingWorld, opened_world

from headrace_matching.events.messages import is_uuid7
from headrace_matching.events.names import EVIDENCES_GENERATED, PRODUCTS_COLLECTED, VIDEOS_COLLECTED, Phase
from headrace_matching.settings import MatchingSettings


async def collect(world: MatchingWorld, job: str) -> None:
    """Two products; the second one appears in the second video."""
    pictures = {("p1", None): b"\x10\x10\x10", ("p2", None): b"\x80\x20\xf0"}
    frames = {("v1", "1.5"): b"\xff\xff\xff", ("v2", "2.5"): b"\x80\x20\xf0", ("v2", "3.5"): b"\x00\xff\x00"}
    for kind, owner, found in (("image", "product_id", pictures), ("keyframe", "video_id", frames)):
        for (name, time_s), content in found.items():  # type: ignore[attr-defined]
            fields = {"kind": kind, owner: name, **({"time_s": time_s} if time_s else {})}
            sent: dict[str, Any] = {"data": fields, "files": {"file": ("x.bin", content, "image/png")}}
            assert (await world.client.post(f"/jobs/{job}/assets", **sent)).status_code == 201
    await world.complete(job, PRODUCTS_COLLECTED, VIDEOS_COLLECTED)


def test_the_ids_of_a_foreign_worker_are_right() -> None:
    assert all(is_uuid7(new_uuid7()) for _ in range(1_000))


async def test_foreign_workers_bring_jobs_to_their_end(servers: MatchingSettings) -> None:
    async with opened_world(servers) as world:
        url = str(world.client.base_url)
        workers = [kind(servers.amqp_url, url) for kind in (ForeignEmbedding, ForeignMatcher)]
        ready = [asyncio.Event() for _ in workers]
        running = [asyncio.create_task(worker.run(event)) for worker, event in zip(workers, ready, strict=True)]
        async with asyncio.timeout(60):
            for event in ready:
                await event.wait()
        jobs = [await world.open(query=number) for number in range(2)]
        for job in jobs:
            await collect(world, job)
        for job in jobs:
            await world.reaches(job, Phase.EVIDENCE)
            assert (await world.client.put(f"/jobs/{job}/evidence/p2/v2", content=PNG)).status_code == 204
            await world.complete(job, EVIDENCES_GENERATED)
            view = await world.reaches(job, Phase.COMPLETED, "completed")
            ready_counts = {"embedding_ready": 2, "keypoint_ready": 2, "assets": 2, "dead": 0}
            assert view["tallies"]["image"] == ready_counts
            assert view["tallies"]["keyframe"]["keypoint_ready"] == 3
            results = (await world.client.get(f"/jobs/{job}/results")).json()["results"]
            assert [(each["product_id"], each["video_id"], each["time_s"]) for each in results] == [("p2", "v2", 2.5)]
            assert (await world.client.get(results[0]["evidence_url"])).content == PNG
        assert await world.dead() == []
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_dead_letter_is_found_by_anybody(servers: MatchingSettings) -> None:
    """In the queue that everybody knows, as it came, with its reason in a header."""
    async with opened_world(servers) as world, await aio_pika.connect_robust(servers.amqp_url) as connection:
        channel = await connection.channel()
        exchange = await channel.get_exchange("matching.events")
        body = b'{"event_id":  "not a uuid" , "kept": "\xc3\xa9"}\n'
        headers: dict[str, Any] = {"source": "theirs", "tries": 3}
        await exchange.publish(aio_pika.Message(body, headers=headers), PRODUCTS_COLLECTED)
        await exchange.publish(aio_pika.Message(b"rain"), "weather.changed")
        await world.refused(1)
        dead = await channel.get_queue("matching.dead")
        message = await dead.get(no_ack=True)
        assert message.body == body
        assert "event_id" in str(message.headers["reason"]) or "job_id" in str(message.headers["reason"])
        assert message.headers["source"] == "theirs"
        assert await dead.get(no_ack=True, fail=False) is None
