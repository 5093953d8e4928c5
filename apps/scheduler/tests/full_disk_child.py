"""A process on a disk that is filled and freed again; says what `/readyz` would ask, step by step."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from headrace.errors import HeadraceError
from headrace_scheduler.observe.write_probe import ASKED_EVERY_S, WriteProbe
from headrace_scheduler.parts import open_parts
from headrace_scheduler.settings import SchedulerSettings


async def steps(home: Path) -> dict[str, str]:
    now, found = [0.0], dict[str, str]()
    async with open_parts(SchedulerSettings(home=home)) as parts:
        probe = WriteProbe(parts.tables.tables, home, lambda: now[0])

        async def ask(step: str) -> None:
            try:
                await probe.answers()
                found[step] = "ready"
            except HeadraceError as error:
                found[step] = str(error)

        await ask("empty")
        ballast = home.parent / "ballast"
        fill(ballast)
        await parts.answers()
        await ask("asked at once")
        now[0] += ASKED_EVERY_S
        await ask("full")
        ballast.unlink()
        now[0] += ASKED_EVERY_S
        await ask("freed")
    return found


def fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65_536))
        except OSError:
            return


if __name__ == "__main__":
    print(json.dumps(asyncio.run(steps(Path(sys.argv[1]) / "home"))))
