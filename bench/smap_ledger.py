"""How fast does smap's ledger in Redis count, and what does an item cost there?

Four answers in one run on one server. `specification` marks one item at a time as the specification does. `raw` sends
the settlement script ready-made over a plain socket, one call ahead, so that Redis never waits: what the script can do.
`headrace` is `RedisLedger.settle`, several calls under way as in the analytics service.
`memory` is what Redis says about the account of a project with so many items.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import redis
from rig import tell

from headrace.testing.rig.redis import RedisServer
from headrace_smap.ledger.project_ledger import digest
from headrace_smap.ledger.redis_ledger import RedisLedger, keys_of, load_scripts, open_redis_ledger
from headrace_smap.values import DONE, PostEnd

BATCH = 1_000
LANES = 4
ROUNDS = 3
PROJECT = "proj_bench"
KEYS = keys_of(PROJECT)
SPECIFICATION_MAX = 10_000
"""One at a time is slow and steady: more items would only take longer."""


def paths(count: int) -> list[str]:
    """What posts are called."""
    return [f"raw/tiktok/{PROJECT}/vid_{number:012}.json" for number in range(count)]


def sealed(url: str, count: int) -> redis.Redis:
    """A client, and a project that waits for so many items and nothing else."""
    client = redis.Redis.from_url(url)
    client.flushdb()
    client.hset(KEYS[0], mapping={"status": "PROCESSING_WAIT", "total": count, "done": 0, "errors": 0})
    return client


def measured(who: str, count: int, call: Callable[[], None], client: redis.Redis) -> dict[str, object]:
    """How long a call took, and that it counted everything and crossed the line."""
    pid = client.info("server")["process_id"]
    started, used, served = time.perf_counter(), time.process_time(), _cpu_s(pid)
    call()
    seconds = time.perf_counter() - started
    status, done = client.hmget(KEYS[0], "status", "done")
    if (status, done) != (DONE.encode(), str(count).encode()):
        raise RuntimeError(f"{who} counted {done!r} of {count} and left {status!r}")
    return {
        "who": who,
        "n": count,
        "items_per_s": round(count / seconds),
        "client_cpu_us": round((time.process_time() - used) * 1e6 / count, 2),
        "server_cpu_us": round((_cpu_s(pid) - served) * 1e6 / count, 2),
    }


def specification(url: str, count: int) -> dict[str, object]:
    """`mark_item_done` of the specification, item by item."""
    with sealed(url, count) as client:

        def mark_all() -> None:
            for _ in range(count):
                done = int(client.hincrby(KEYS[0], "done", 1))
                total = client.hget(KEYS[0], "total")
                if total and done >= int(total) > 0 and client.hget(KEYS[0], "status") != DONE.encode():
                    client.hset(KEYS[0], "status", DONE)

        return measured("specification", count, mark_all, client)


def raw(url: str, count: int, batch: int = BATCH) -> dict[str, object]:
    """The script alone: requests are made beforehand, answers are not looked at."""
    script, posts = load_scripts().settle, paths(count)
    requests = [
        _request(b"EVALSHA", script.sha, len(KEYS), *KEYS, "token", b"".join(map(digest, posts[at : at + batch])), b"")
        for at in range(0, count, batch)
    ]
    with sealed(url, count) as client, _connected(url) as connection:
        client.script_load(script.text)
        return measured("raw", count, lambda: _exchange(connection, requests), client)


def headrace(url: str, count: int, batch: int = BATCH, lanes: int = LANES) -> dict[str, object]:
    """The ledger as a service calls it."""
    ends = [PostEnd(post) for post in paths(count)]

    async def settle_all() -> None:
        async with open_redis_ledger(url) as ledger:
            starts = (range(lane * batch, count, lanes * batch) for lane in range(lanes))
            await asyncio.gather(*(_lane(ledger, each) for each in starts))

    async def _lane(ledger: RedisLedger, starts: range) -> None:
        for at in starts:
            await ledger.settle(PROJECT, ends[at : at + batch])

    with sealed(url, count) as client:
        return {
            **measured("headrace", count, lambda: asyncio.run(settle_all()), client),
            "batch": batch,
            "lanes": lanes,
        }


def memory(url: str, count: int) -> dict[str, object]:
    """What Redis needs for a project's account, of which none failed, one in ten or all."""
    result: dict[str, object] = {"who": "memory", "n": count}
    for name, every in (("bytes_per_item", 0), ("bytes_per_item_tenth_failed", 10), ("bytes_per_item_all_failed", 1)):
        with sealed(url, count) as client:
            before = client.info("memory")["used_memory"]

            async def settle_all(every: int = every) -> None:
                async with open_redis_ledger(url) as ledger:
                    ends = [PostEnd(post, not every or number % every > 0) for number, post in enumerate(paths(count))]
                    await ledger.settle(PROJECT, ends)

            asyncio.run(settle_all())
            told = sum(client.memory_usage(key, samples=0) or 0 for key in KEYS)
            result[name] = round(told / count, 1)
            result[name.replace("bytes", "used_memory")] = round(
                (client.info("memory")["used_memory"] - before) / count, 1
            )
    return result


def compare(url: str, count: int) -> list[dict[str, object]]:
    """All four. `raw` and `headrace` take turns, and the best of each counts: a neighbour's burst hits one of them."""
    rounds = [(raw(url, count), headrace(url, count)) for _ in range(ROUNDS)]
    bare, ours = (max(each, key=_rate) for each in zip(*rounds, strict=True))
    share = {"share_of_raw": round(_rate(ours) / _rate(bare), 2)}
    return [specification(url, min(count // 10, SPECIFICATION_MAX)), bare, {**ours, **share}, memory(url, count)]


def _rate(result: dict[str, object]) -> int:
    return int(str(result["items_per_s"]))


def _request(*words: str | bytes | int) -> bytes:
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)])


def _connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_request("SELECT", parts.path.strip("/") or "1"))
    connection.recv(64)
    return connection


def _exchange(connection: socket.socket, requests: Sequence[bytes]) -> None:
    """One request ahead of the answers."""
    answers = connection.makefile("rb")
    for number, request in enumerate(requests):
        connection.sendall(request)
        if number:
            _skip_answer(answers)
    _skip_answer(answers)


def _skip_answer(answers: IO[bytes]) -> None:
    line = answers.readline()
    if not line.startswith(b"*"):
        raise RuntimeError(f"Redis answers {line!r}")
    for _ in range(int(line[1:])):
        if answers.readline().startswith(b"$"):
            answers.readline()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--n", type=int, default=500_000, help="count of items")
    arguments = parser.parse_args()
    with RedisServer() as server:
        for result in compare(server.url_of(1), arguments.n):
            tell(result, arguments.json)


if __name__ == "__main__":
    main()
