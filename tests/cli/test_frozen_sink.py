"""A worker that freezes inside a write to a SQLite sink is killed like one that freezes inside a write to the store."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

APP = """
import fcntl, os, signal, time
import headrace
from headrace.ports.sink import Change

flow = headrace.Flow("till")
sink = headrace.sink("sqlite:///till.db", tables="CREATE TABLE IF NOT EXISTS sale (cents INTEGER)")


@flow.stage(sink=sink)
async def sell(cents: int, context: headrace.Context) -> None:
    await sink.once(context.effect(), Change("INSERT INTO sale VALUES (?)", (cents,)))
    if cents == 13 and not os.path.exists("frozen"):
        open("frozen", "w").close()
        lock = os.open("till.db-writer", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.pwrite(lock, f"{os.getpid():>10} {time.monotonic():>20.3f}\\n".encode(), 0)
        os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_worker_frozen_inside_a_write_to_a_sink_does_not_stop_the_others(
    headrace_command: Callable[..., subprocess.CompletedProcess[str]], here: Path, answer: Callable[..., Any]
) -> None:
    (here / "app.py").write_text(APP)
    (here / "sales.jsonl").write_text("5\n13\n7\n")
    job = answer("jobs", "submit", "app:flow", "--file", "sales.jsonl")["id"]
    worked = headrace_command("worker", "app:flow", "--until-idle", "--hold-s", "1.5", "--processes", "2")
    assert worked.returncode == 0, worked.stderr
    assert "frozen inside a write" in worked.stderr
    assert answer("jobs", "show", job)["stages"]["sell"]["done"] == 3
    effects = answer("effects", "app:flow", "--job", job)
    assert [effect["state"] for effect in effects] == ["done"] * 3
    assert sum(effect["refused"] for effect in effects) >= 1, "the item that froze had its effect already"
