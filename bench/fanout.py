"""How fast do N items fan out and finish exactly once, in one worker process?

Three answers in one run, over the same typed payloads and the same durability: `raw_rows` writes, claims and settles a
row per item in batches; `raw_chunks` is the bare loop over chunks, with claim and settlement in commits of their own;
`headrace` is the engine. `items_per_s` is N over the whole passage, from the start of the submit to the finish line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from flows import Reading, fanout, reading
from rig import fresh_store, options, peak_rss_mb, tell, workers

import headrace

WAIT_S = 1_800.0


def payloads(count: int) -> Iterator[Reading]:
    return map(reading, range(count))


async def engine(url: str, count: int) -> dict[str, object]:
    """Bulk submit to an idle worker process, then wait for the finish line."""
    async with headrace.connect(url) as opened, workers(url, "fanout") as supervisor:
        started = time.perf_counter()
        job = await opened.submit_many(fanout, payloads(count))
        submitted = time.perf_counter()
        view = await opened.wait(job, WAIT_S)
        ended = time.perf_counter()
        peak = peak_rss_mb(supervisor.pids)
        finishes = await opened.store.finishes(job)
    done = view.stages["take"].done
    if done != count or view.state is not headrace.JobState.FINISHED:
        raise RuntimeError(f"{done} of {count} done, job {view.state}")
    return {
        "items_per_s": round(count / (ended - started)),
        "submit_s": round(submitted - started, 3),
        "finish_lines": len(finishes),
        "work_items_per_s": round(count / (ended - submitted)),
        "peak_rss_mb": peak,
    }


def raw(kind: str, who: str, url: str, count: int) -> dict[str, object]:
    if kind == "sqlite":
        import raw_sqlite as loops
    else:
        import raw_postgres as loops  # type: ignore[no-redef]
    loop = loops.rows if who == "raw_rows" else loops.chunks
    started = time.perf_counter()
    submitted, finish_lines = loop(url, payloads(count))
    ended = time.perf_counter()
    return {
        "items_per_s": round(count / (ended - started)),
        "submit_s": round(submitted - started, 3),
        "finish_lines": finish_lines,
        "work_items_per_s": round(count / (ended - submitted)),
    }


def main() -> None:
    parser = options(__doc__ or "")
    parser.add_argument("--n", default="10000,100000", help="item counts, separated by commas")
    parser.add_argument("--who", default="raw_rows,raw_chunks,headrace")
    arguments = parser.parse_args()
    for count in map(int, arguments.n.split(",")):
        for who in arguments.who.split(","):
            with fresh_store(arguments.store) as url:
                found = asyncio.run(engine(url, count)) if who == "headrace" else raw(arguments.store, who, url, count)
            tell({"who": who, "store": arguments.store, "n": count, **found}, arguments.json)


if __name__ == "__main__":
    main()
