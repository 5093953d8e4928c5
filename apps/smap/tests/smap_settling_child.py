"""A process that settles items in a SQLite file until it is killed: python smap_settling_child.py FILE."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from itertools import count

from headrace_smap.database import open_database

ITEMS = 300


async def main(path: str) -> None:
    async with open_database(f"sqlite:///{path}") as database:
        for turn in count():
            ends = [(f"item {(turn * 7 + step) % ITEMS}", (turn + step) % 3 > 0) for step in range(10)]
            rows = [{"project": "p", "item": item, "ok": ok, "reason": None, "body": None} for item, ok in ends]
            await database.rows("truth_settle", rows=rows, now=datetime.now(UTC))
            print(turn, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
