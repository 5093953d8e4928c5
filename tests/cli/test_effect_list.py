"""Effects on the command line, read from the sink that the handlers wrote to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

APP = """
import headrace
from headrace.ports.sink import Change

flow = headrace.Flow("till")
sink = headrace.sink("sqlite:///till.db", tables="CREATE TABLE IF NOT EXISTS sale (cents INTEGER)")


@flow.stage(sink=sink, retry=headrace.backoff(1))
async def sell(cents: int, context: headrace.Context) -> None:
    await sink.once(context.effect(), Change("INSERT INTO sale VALUES (?)", (cents,)))
    if cents == 13:
        raise headrace.Dead("unlucky")


bare = headrace.Flow("bare")


@bare.stage
async def nothing(cents: int) -> None: ...
"""


def test_effects_are_listed_with_what_was_left_behind(
    headrace_command: Callable[..., subprocess.CompletedProcess[str]], here: Path, answer: Callable[..., Any]
) -> None:
    (here / "app.py").write_text(APP)
    (here / "sales.jsonl").write_text("5\n13\n7\n")
    job = answer("jobs", "submit", "app:flow", "--file", "sales.jsonl")["id"]
    worked = headrace_command("worker", "app:flow", "--until-idle", "--hold-s", "2")
    assert worked.returncode == 0, worked.stderr
    found = answer("effects", "app:flow")
    assert found == answer("effects", "sqlite:///till.db")
    assert {(effect["sink"], effect["guarantee"]) for effect in found} == {("sqlite:///till.db", "conditional")}
    assert [effect["key"].split("/")[:2] for effect in found] == [[job, "sell"]] * 3
    assert sorted(effect["state"] for effect in found) == ["dead", "done", "done"]
    left = answer("effects", "sqlite:///till.db", "--job", job, "--left-behind")
    assert [(effect["state"], effect["left_behind"]) for effect in left] == [("dead", True)]
    assert answer("effects", "sqlite:///till.db", "--job", "nobody") == []
    assert "left behind" in headrace_command("effects", "sqlite:///till.db").stdout
    assert headrace_command("effects", "sqlite:///nowhere.db").returncode == 3
    assert "declares a sink" in headrace_command("effects", "app:bare").stderr
