"""Items of lost holds: one at a time, with nothing else started in their process."""

from __future__ import annotations

import pytest
from source_bench import SourceBench, take

from headrace.core.sources import ItemState
from headrace.sources import SourceContext


class Started:
    """A handler that notes what was at work when each item was started."""

    def __init__(self) -> None:
        self.at_work: set[str] = set()
        self.beside: dict[str, set[str]] = {}

    async def __call__(self, seconds: float, context: SourceContext) -> None:
        self.beside[context.key] = set(self.at_work)
        self.at_work.add(context.key)
        try:
            await take(seconds)
        finally:
            self.at_work.discard(context.key)


@pytest.fixture
def handler() -> Started:
    return Started()


def lose(bench: SourceBench, *keys: str, seconds: float = 0.5, crashes: int = 0) -> None:
    """Items whose last holder is gone."""
    for key in keys:
        bench.source.add(key, seconds, suspect=True, crashes=crashes)


def test_a_suspect_waits_for_what_was_started_and_nothing_is_started_beside_it(
    bench: SourceBench, handler: Started
) -> None:
    async def story() -> None:
        bench.source.add("long", 7.0)
        worker = bench.worker(handler, poll_s=0.1)
        running = bench.loop.create_task(worker.run())
        await bench.until(lambda: "long" in handler.at_work)
        lose(bench, "suspect", seconds=4.0)
        await bench.until(lambda: bench.source.rows["suspect"].holder)
        bench.source.add("late", 0.1)
        await bench.until(lambda: bench.source.rows["late"].state)
        worker.drain()
        await running

    bench.run(story())
    assert handler.beside == {"long": set(), "suspect": set(), "late": set()}
    assert list(handler.beside) == ["long", "suspect", "late"]
    assert [row.state for row in bench.source.rows.values()] == [ItemState.DONE] * 3


def test_suspects_run_one_after_the_other(bench: SourceBench, handler: Started) -> None:
    lose(bench, "a", "b", "c", "d")
    bench.run(bench.serve(bench.worker(handler), 10.0))
    assert handler.beside == {key: set() for key in "abcd"}
    assert {row.state for row in bench.source.rows.values()} == {ItemState.DONE}
    assert not any(row.suspect for row in bench.source.rows.values())


def test_what_is_held_behind_a_suspect_goes_to_other_workers(bench: SourceBench, handler: Started) -> None:
    other = Started()

    async def story() -> None:
        lose(bench, "a", "b", seconds=20.0)
        first, second = bench.worker(handler), bench.worker(other)
        running = [bench.loop.create_task(first.run())]
        await bench.until(lambda: first.in_progress == 2 and handler.beside)
        running.append(bench.loop.create_task(second.run()))
        await bench.until(lambda: other.beside, 5.0)
        for worker in (first, second):
            worker.stop_now()
        for task in running:
            await task

    bench.run(story())
    assert {*handler.beside} | {*other.beside} == {"a", "b"}


@pytest.mark.parametrize("end", ["drain", "stop_now"])
def test_a_suspect_that_waits_is_given_back_by_a_drain(bench: SourceBench, handler: Started, end: str) -> None:
    async def story() -> None:
        bench.source.add("long", 3.0)
        worker = bench.worker(handler, poll_s=0.1)
        running = bench.loop.create_task(worker.run())
        await bench.until(lambda: "long" in handler.at_work)
        lose(bench, "suspect")
        await bench.until(lambda: bench.source.rows["suspect"].holder)
        getattr(worker, end)()
        await bench.until(lambda: not bench.source.rows["suspect"].holder, 0.5)
        await running

    bench.run(story())
    row = bench.source.rows["suspect"]
    assert (row.suspect, row.crashes, row.attempts, row.state) == (True, 0, 0, None)
    assert "suspect" not in handler.beside


def test_a_suspect_whose_hold_ends_while_it_waits_is_left_alone(bench: SourceBench, handler: Started) -> None:
    async def story() -> None:
        bench.source.add("long", 2.5)
        worker = bench.worker(handler, poll_s=0.1)
        running = bench.loop.create_task(worker.run())
        await bench.until(lambda: "long" in handler.at_work)
        lose(bench, "suspect")
        await bench.until(lambda: bench.source.rows["suspect"].holder)
        bench.source.rows["suspect"].fence += 1
        await bench.until(lambda: worker.observer.counts["hold.lost"])
        worker.drain()
        await running

    bench.run(story())
    assert "suspect" not in handler.beside
    assert bench.source.rows["suspect"].alone is False


def test_what_was_lost_alone_too_often_dies_and_is_not_started(bench: SourceBench, handler: Started) -> None:
    lose(bench, "deadly", crashes=3)
    bench.source.add("other", 0.1)
    bench.run(bench.serve(bench.worker(handler), 2.0))
    row = bench.source.rows["deadly"]
    assert (row.state, row.attempts, row.suspect) == (ItemState.DEAD, 0, True)
    assert row.failure is not None
    assert (row.failure.reason, row.failure.rule) == ("worker_lost", "worker_lost")
    assert list(handler.beside) == ["other"]
