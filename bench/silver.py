"""How fast does the silver worker take tasks off its queue, in PostgreSQL?

Three answers in one run, over the same tasks with batches of 500: `row_by_row` is the specification's own algorithm,
`raw` ships the payloads, upserts and deletes in sets and looks at nothing (its tasks are all good: it could not tell
otherwise), `headrace` is the worker. Each runs in a process of its own, which also tells its
largest resident size; the processor time of client and server is what can still be compared on a busy machine.
`times_raw` is that processor time against the one of `raw`: what judging, letters, revisions and the flag cost.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import resource
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from rig import tell
from silver_loops import BATCH, raw, row_by_row

from headrace.testing.rig.postgres import PostgresServer
from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.silver_store import open_store

LOOPS = ("row_by_row", "raw", "headrace")
BAD_SHARE = 0.05
ARTICLE_SHARE = 0.2
WORDS = "cổ phiếu doanh nghiệp thị trường tăng giảm phiên giao dịch lợi nhuận khối ngoại mua bán ròng"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def tasks(count: int, bad_share: float) -> Iterator[tuple[str, str]]:
    """Kind and payload of so many tasks, the same in every run."""
    chance = random.Random(count)
    for number in range(count):
        is_bad = chance.random() < bad_share
        if chance.random() < ARTICLE_SHARE:
            yield "sa.article", json.dumps(_article(number, chance, is_bad), ensure_ascii=False)
        else:
            yield "ta.bar", json.dumps(_bar(number, chance, is_bad))


def _bar(number: int, chance: random.Random, is_bad: bool) -> dict[str, Any]:
    symbol, day = number % 1_700, number // 1_700
    price = round(chance.uniform(5, 120), 2)
    return {
        "symbol": LETTERS[symbol // 676] + LETTERS[symbol // 26 % 26] + LETTERS[symbol % 26],
        "trade_date": (date(2000, 1, 3) + timedelta(days=day)).isoformat(),
        "open": price,
        "high": round(price * 1.02, 2),
        "low": round(price * 0.98, 2),
        "close": -price if is_bad else price,
        "volume": chance.randrange(1_000, 9_000_000),
        "vwap": price,
        "adj_close": price,
        "source": "hose",
        "content_hash": f"{chance.getrandbits(128):032x}",
    }


def _article(number: int, chance: random.Random, is_bad: bool) -> dict[str, Any]:
    return {
        "url_canonical": f"https://tin{number % 40}.vn/chung-khoan/{number}-{chance.getrandbits(40):x}.html",
        "source_domain": f"tin{number % 40}.vn",
        "publisher_time": (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(minutes=number % 500_000)).isoformat(),
        "language": "vi",
        "title": " ".join(chance.choices(WORDS.split(), k=10)),
        "text_normalized": "ngắn" if is_bad else " ".join(chance.choices(WORDS.split(), k=160)),
        "content_hash": f"{chance.getrandbits(128):032x}",
        "symbols": ["VNM", "FPT"][: number % 3],
    }


def headrace(url: str) -> int:
    store = open_store(url)
    consumed = TaskConsumer(store, ConsumeSettings(BATCH), Mode.DRAIN, line=lambda _: None).run()
    store.close()
    return consumed.bars + consumed.articles + consumed.rejects


def _measured(who: str, url: str, answer: Any) -> None:
    loop = {"row_by_row": row_by_row, "raw": raw, "headrace": headrace}[who]
    started, used = time.perf_counter(), time.process_time()
    count = loop(url)
    seconds, processor = time.perf_counter() - started, time.process_time() - used
    answer.put((count, seconds, processor, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def reaped_cpu_s(pid: int) -> float:
    """What the ended children of a process have used; PostgreSQL has a child for each connection."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def measure(server: PostgresServer, who: str, count: int) -> dict[str, float]:
    with server.database() as url:
        store = open_store(url)
        store.create()
        store.close()
        with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY task_q (task_type, payload) FROM STDIN") as copy:
                for task in tasks(count, 0.0 if who == "raw" else BAD_SHARE):
                    copy.write_row(task)
            connection.execute("CHECKPOINT")
            loader = Path(f"/proc/{connection.info.backend_pid}")
        while loader.exists():
            # What it has used for loading would count as the loop's.
            time.sleep(0.01)
        context = multiprocessing.get_context("spawn")
        answer = context.SimpleQueue()
        child = context.Process(target=_measured, args=(who, url, answer))
        before = reaped_cpu_s(server.pid)
        child.start()
        child.join()
        used = reaped_cpu_s(server.pid) - before
        if child.exitcode:
            raise RuntimeError(f"{who} ended with {child.exitcode}")
        taken, seconds, processor, peak = answer.get()
    if taken != count:
        raise RuntimeError(f"{who} took {taken} of {count} tasks")
    return {
        "tasks_per_s": round(count / seconds),
        "seconds": round(seconds, 2),
        "client_cpu_s": round(processor, 2),
        "server_cpu_s": round(used, 2),
        "peak_rss_mb": round(peak, 1),
    }


def processor_s(result: dict[str, float]) -> float:
    """Of client and server; a loop of a few tasks may use less than a clock can tell."""
    return max(result["client_cpu_s"] + result["server_cpu_s"], 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="only JSON lines on stdout")
    parser.add_argument("--n", default="10000,100000", help="counts of tasks, separated by commas")
    parser.add_argument("--who", default=",".join(LOOPS))
    parser.add_argument(
        "--rounds", type=int, default=2, help="in turns; the one of each that used least processor time counts"
    )
    arguments = parser.parse_args()
    with PostgresServer() as server:
        for count in map(int, arguments.n.split(",")):
            loops = arguments.who.split(",")
            rounds = [[measure(server, who, count) for who in loops] for _ in range(arguments.rounds)]
            best = {who: min(found, key=processor_s) for who, *found in zip(loops, *rounds, strict=True)}
            for who, result in best.items():
                ratio = {"times_raw": round(processor_s(result) / processor_s(best["raw"]), 2)} if "raw" in best else {}
                tell({"who": who, "n": count, **result, **ratio}, arguments.json)


if __name__ == "__main__":
    main()
