"""Analysts are lost and run out of time; every post comes to an end of its own all the same."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from smap_posts import PROJECT, deadly, install_deadly, post

from headrace.errors import Unreachable
from headrace_smap.analytics.analysts import PROGRAM, ChildAnalysts, Lost, ThreadAnalyst
from headrace_smap.analytics.pipeline import LOST_MAX, Analysis
from headrace_smap.analytics.work import Outcome, Work

LIMIT_S = 20.0


def works(*texts: str) -> list[Work]:
    return [Work(PROJECT, f"raw/{number}.json", post(id=text, text=text)) for number, text in enumerate(texts)]


def ends(outcomes: Sequence[Outcome]) -> list[str]:
    return [fault.rule if fault else found.post_id if found else "" for found, fault in outcomes]


@pytest.fixture
async def children(tmp_path: Path) -> AsyncIterator[ChildAnalysts]:
    analysts = ChildAnalysts(install_deadly(tmp_path / "installed"), 1)
    yield analysts
    await analysts.close()


async def test_a_post_that_ends_its_process_is_the_only_one_to_fail(children: ChildAnalysts) -> None:
    outcomes = await Analysis(children, LIMIT_S).run(works("a", "die", "b", "print", "fail"))
    assert ends(outcomes) == ["a", "worker_lost", "b", "print", "module_failed"]


async def test_a_post_that_hangs_in_a_child_is_out_of_time_and_the_others_are_done(children: ChildAnalysts) -> None:
    analysis = Analysis(children, 1.0)
    assert ends(await analysis.run(works("warm", "up"))) == ["warm", "up"]
    assert ends(await analysis.run(works("a", "hang", "b"))) == ["a", "time_limit", "b"]


async def test_a_post_that_hangs_in_a_thread_is_out_of_time_and_the_others_are_done() -> None:
    outcomes = await Analysis(ThreadAnalyst(deadly()), 0.3).run(works("a", "hang", "b"))
    assert ends(outcomes) == ["a", "time_limit", "b"]


def test_a_child_imports_only_what_it_analyses_with() -> None:
    """Each child of each service pays for its imports, in time and in memory, and again whenever one is lost."""
    code = f"import sys, {PROGRAM} as child; child.main(); print(*sys.modules, file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", code], input=b"", capture_output=True, check=True, timeout=60)
    imported = set(ended.stderr.decode().split())
    assert "headrace_smap.analytics.modules.sentiment.module" in imported, "its modules are warm"
    servers = {"asyncio", "fastapi", "pydantic", "starlette", "headrace_smap.database"}
    assert imported & {*servers, "cronsim", "headrace.runtime", "rich", "structlog", "typer"} == set()


async def test_children_that_cannot_start_are_nobodys_fault() -> None:
    analysts = ChildAnalysts({"SMAP_MODULES": "there-is-no-such-module"}, 1)
    with pytest.raises(Unreachable, match="does not start"):
        await Analysis(analysts, LIMIT_S).run(works("a"))
    await analysts.close()


class Unlucky:
    """Loses its first calls by an accident of the machine."""

    def __init__(self, losses: int) -> None:
        self._losses, self._analyst = losses, ThreadAnalyst(deadly())

    async def run(self, works: Sequence[Work], limit_s: float) -> list[Outcome]:
        if self._losses:
            self._losses -= 1
            raise Lost(late=False)
        return await self._analyst.run(works, limit_s)

    async def warm(self) -> None:
        await self._analyst.warm()

    async def close(self) -> None:
        await self._analyst.close()


async def test_one_accident_costs_no_post_and_too_many_do() -> None:
    assert ends(await Analysis(Unlucky(LOST_MAX), LIMIT_S).run(works("a", "b"))) == ["a", "b"]
    assert ends(await Analysis(Unlucky(LOST_MAX), LIMIT_S).run(works("a"))) == ["worker_lost"]
