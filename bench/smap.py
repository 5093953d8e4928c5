"""How fast does the analytics service of smap take posts off its queue, on real servers?

All in one run, on the same machine: first what each server gives by itself (`raw`), then the specification's own
algorithm (`one_by_one`) and the service (`headrace`), both with modules that do nothing:

    settled      with the blobs at hand, from the delivered message to the settled post
    told         with the blobs at hand, from the waiting queue to the acknowledged message and the published result
    end_to_end   the same with an S3 GET for each post

Then the service with its real modules. `floor` names the server that alone is the slowest.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, cast

import obstore
import smap_raw as raw
from rig import tell
from smap_loops import Places, one_by_one, settle_each
from smap_raw import BATCH, PROJECT, Stored

from headrace.blobs import Blobs
from headrace.errors import NotFound
from headrace.ports import Bus, Delivery, Event, Subscription
from headrace.services import log_to_stderr
from headrace.testing import rig
from headrace_smap.analytics.limits import AnalyticsLimits
from headrace_smap.analytics.modules import NAMES
from headrace_smap.analytics.pipeline import Analysis
from headrace_smap.analytics.service import AnalyticsService, analysts_of, handler_of, modules_of
from headrace_smap.count.accountant import Accountant
from headrace_smap.count.keeper import keeping
from headrace_smap.envelope import ANALYTICS_QUEUE, INSIGHT_QUEUE
from headrace_smap.frame import FRAME
from headrace_smap.parts import SmapParts, open_parts
from headrace_smap.settings import SmapSettings

RUN_S_MAX = 600.0
SETTLED, TOLD, END_TO_END = "settled", "told", "end_to_end"
LOOK_S = 0.005
WORDS = "xe điện chạy êm pin trâu giá tốt giao hàng chậm nhân viên nhiệt tình mình rất thích không hài lòng màu đẹp"


def stored_posts(count: int) -> Stored:
    """Paths and raw posts, the same in every run."""
    chance = random.Random(count)
    return [(f"raw/tiktok/{PROJECT}/{number}.json", _post(number, chance)) for number in range(count)]


def _post(number: int, chance: random.Random) -> bytes:
    document = {
        "id": f"vid_{number}",
        "platform": "tiktok",
        "text": f"VinFast VF3 {' '.join(chance.choices(WORDS.split(), k=40))}! #xe",
        "author": {"id": f"u{number % 1_000}", "name": "Lan", "followers": chance.randrange(100_000)},
        "metrics": {name: chance.randrange(1_000) for name in ("likes", "comments", "shares", "views")},
        "published_at": "2025-01-15T08:30:00Z",
        "url": f"https://example.com/@lan/video/{number}",
    }
    return json.dumps(document, ensure_ascii=False).encode()


class AtHand(Blobs):
    """Blobs that need no reading."""

    def __init__(self, stored: Stored) -> None:
        super().__init__("file:///nowhere", {}, "SMAP_S3_URL")
        self._held = dict(stored)

    async def get(self, path: str, bytes_max: int) -> bytes:
        if path not in self._held:
            raise NotFound(path)
        return self._held[path]


@dataclass(frozen=True, slots=True)
class Servers:
    """Real ones; each measurement has a database, keyspace, virtual host and bucket of its own."""

    postgres: Any
    redis: Any
    rabbitmq: Any
    s3: Any

    @contextmanager
    def fresh(self, modules: str) -> Iterator[SmapSettings]:
        self.redis.empty(1)
        with ExitStack() as stack:
            bucket = stack.enter_context(self.s3.bucket())
            environment = {
                "PATH": os.environ["PATH"],
                "SMAP_HOME": stack.enter_context(TemporaryDirectory(prefix="smap-bench-")),
                "SMAP_AMQP_URL": stack.enter_context(self.rabbitmq.vhost()),
                "SMAP_REDIS_URL": self.redis.url_of(1),
                "SMAP_PG_DSN": stack.enter_context(self.postgres.database()),
                "SMAP_S3_URL": bucket.url,
                "AWS_ACCESS_KEY_ID": bucket.access_key,
                "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
                "SMAP_MODULES": modules,
            }
            yield FRAME.load(environment)


async def _upload(blobs: Blobs, stored: Stored) -> None:
    waiting = iter(stored)

    async def lane() -> None:
        for path, data in waiting:
            await blobs.put(path, data)

    await asyncio.gather(*(lane() for _ in range(16)))


async def _open_project(parts: SmapParts, stored: Stored, upload: bool) -> None:
    """A sealed project whose messages all wait in the queue, with somebody who listens for results."""
    accountant = Accountant(parts)
    await parts.bus.subscribe(Subscription(ANALYTICS_QUEUE, ("data.collected",)))
    await parts.bus.subscribe(Subscription(INSIGHT_QUEUE, ("analysis.finished", "job.completed")))
    if upload:
        await _upload(parts.blobs, stored)
    await accountant.open(PROJECT)
    await raw.publish(parts, [path for path, _ in stored])
    await accountant.seal(PROJECT, len(stored))


@dataclass(frozen=True, slots=True)
class Took:
    """Time on the clock, and processor time of the service and its children."""

    seconds: float
    processor_s: float


def _processor_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


async def plain(settings: SmapSettings, stored: Stored, what: str) -> Took:
    """What the specification's algorithm takes."""
    async with open_parts(settings) as parts:
        await _open_project(parts, stored, what == END_TO_END)
        held, store = dict(stored), parts.blobs._place.of("raw")[0]

        def fetch(path: str) -> bytes:
            return held[path] if what != END_TO_END else bytes(obstore.get(store, path).bytes())

        places = Places(settings.amqp_url, settings.redis_url, settings.pg_dsn, ANALYTICS_QUEUE, fetch)
        bodies = [event.body for event in raw.events([path for path, _ in stored])]
        began, used = time.perf_counter(), _processor_s()
        if what == SETTLED:
            crossed = settle_each(places, bodies)
        else:
            crossed = await one_by_one(places, len(stored))
        if crossed != 1:
            raise RuntimeError("the finish line was not crossed once")
        return Took(time.perf_counter() - began, _processor_s() - used)


async def service(settings: SmapSettings, stored: Stored, what: str) -> Took:
    """What it takes until the service has settled all of it, and told if that is asked for."""
    async with open_parts(settings) as parts:
        await _open_project(parts, stored, what == END_TO_END)
        if what != END_TO_END:
            parts = replace(parts, blobs=AtHand(stored))
        took = await (_settled(parts, stored) if what == SETTLED else _told(parts, stored))
        progress = await Accountant(parts).progress(PROJECT)
        if progress is None or (progress["status"], progress["processed"]) != ("DONE", len(stored)):
            raise RuntimeError(f"the project ended as {progress}")
        return took


async def _told(parts: SmapParts, stored: Stored) -> Took:
    analytics, stop = AnalyticsService(parts), asyncio.Event()
    await analytics.prepare()
    await analytics.warm()
    async with keeping(parts, stop):
        began, used = time.perf_counter(), _processor_s()
        running = asyncio.create_task(analytics.run(stop))
        async with asyncio.timeout(RUN_S_MAX):
            while not running.done() and _done(parts) < len(stored):
                await asyncio.sleep(LOOK_S)
        seconds = time.perf_counter() - began
        stop.set()
        await running
    return Took(seconds, _processor_s() - used)


class Silent:
    """A bus that nobody listens to: what follows the settlement costs nothing."""

    async def publish(self, events: Sequence[Event]) -> list[bool]:
        return [True] * len(events)


async def _settled(parts: SmapParts, stored: Stored) -> Took:
    limits = AnalyticsLimits.read(parts.settings.environment)
    analysts = analysts_of(parts, limits, modules_of(parts))
    quiet_parts = replace(parts, bus=cast("Bus", Silent()))
    handler = handler_of(quiet_parts, Accountant(quiet_parts), Analysis(analysts, limits.post_s_max))
    events = raw.events([path for path, _ in stored])
    deliveries = [Delivery(ANALYTICS_QUEUE, number, 1, event) for number, event in enumerate(events)]
    batches = iter([deliveries[first : first + BATCH] for first in range(0, len(deliveries), BATCH)])

    async def lane() -> None:
        for batch in batches:
            await handler.handle(batch)

    await analysts.warm()
    began, used = time.perf_counter(), _processor_s()
    await asyncio.gather(*(lane() for _ in range(parts.settings.workers)))
    seconds = time.perf_counter() - began
    await analysts.close()
    return Took(seconds, _processor_s() - used)


def _done(parts: SmapParts) -> float:
    return parts.registry.get_sample_value("headrace_smap_posts_total", {"outcome": "done"}) or 0.0


def compare(servers: Servers, stored: Stored, rounds: int, what: str) -> Iterator[dict[str, object]]:
    """In turns, so that both meet the same neighbours; the best round of each counts. The plain way gets a part of the
    posts: it is as fast with few as with many."""
    loops: dict[str, Callable[..., Any]] = {"one_by_one": plain, "headrace": service}
    shares = {"one_by_one": stored[: max(BATCH, len(stored) // 5)], "headrace": stored}
    found: dict[str, list[Took]] = {who: [] for who in loops}
    for _ in range(rounds):
        for who, loop in loops.items():
            with servers.fresh("nothing") as settings:
                found[who].append(asyncio.run(loop(settings, shares[who], what)))
    best = {who: min(runs, key=lambda took: took.seconds) for who, runs in found.items()}
    plain_rate = len(shares["one_by_one"]) / best["one_by_one"].seconds
    for who, took in best.items():
        times = round(len(shares[who]) / took.seconds / plain_rate, 1)
        yield {"who": who, "what": what, **_rates(shares[who], took), "times": times}


def _rates(stored: Stored, took: Took) -> dict[str, object]:
    count = len(stored)
    processor = round(took.processor_s / count * 1e6)
    return {"n": count, "posts_per_s": round(count / took.seconds), "client_cpu_us_per_post": processor}


def floors(servers: Servers, stored: Stored) -> Iterator[dict[str, object]]:
    paths = [path for path, _ in stored]

    async def all_of_them(settings: SmapSettings) -> dict[str, float]:
        async with open_parts(settings) as parts:
            await parts.bus.subscribe(Subscription(ANALYTICS_QUEUE, ("data.collected",)))
            await _upload(parts.blobs, stored)
            return {
                "publish": await raw.publish(parts, paths),
                "consume": await raw.consume(parts, ANALYTICS_QUEUE, len(paths)),
                "get": await raw.get(parts, paths, AnalyticsLimits().fetches),
                "upsert": await raw.upsert(parts, stored),
            }

    with servers.fresh("nothing") as settings:
        rates = asyncio.run(all_of_them(settings))
    for what, rate in rates.items():
        yield {"who": "raw", "what": what, "n": len(stored), "per_s": round(rate)}
    yield {"who": "raw", "what": "floor", "n": len(stored), "floor": min(rates, key=lambda name: rates[name])}


def real_modules(servers: Servers, stored: Stored) -> Iterator[dict[str, object]]:
    rate = raw.compute(stored, NAMES)
    yield {"who": "modules", "what": "per_core", "n": len(stored), "posts_per_s": round(rate)}
    with servers.fresh(",".join(NAMES)) as settings:
        took = asyncio.run(service(settings, stored, TOLD))
    yield {"who": "headrace", "what": "real_modules", **_rates(stored, took)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--n", type=int, default=20_000, help="posts")
    parser.add_argument("--rounds", type=int, default=3, help="of each comparison; the best counts")
    arguments = parser.parse_args()
    log_to_stderr()
    stored = stored_posts(max(BATCH, arguments.n))
    with ExitStack() as stack:
        postgres, redis = (stack.enter_context(rig.new_server(name)) for name in ("postgres", "redis"))
        # A backlog of tens of thousands must not raise the alarm of a small server.
        rabbitmq = stack.enter_context(rig.new_server("rabbitmq", {"vm_memory_high_watermark.absolute": "2GB"}))
        # Other S3 servers keep connections; this one does so when it is told to.
        s3 = stack.enter_context(rig.new_server("s3", {"keep_alive": "true"}))
        servers = Servers(postgres, redis, rabbitmq, s3)
        for results in (
            floors(servers, stored),
            *(compare(servers, stored, arguments.rounds, what) for what in (SETTLED, TOLD, END_TO_END)),
            real_modules(servers, stored),
        ):
            for result in results:
                tell(result, arguments.json)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tell({"who": "headrace", "what": "memory", "n": len(stored), "peak_rss_mb": round(peak, 1)}, arguments.json)


if __name__ == "__main__":
    main()
