"""The worker of a source: outcomes, taking items, progress."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from source_bench import OPTIONS, SourceBench, nothing, take

from headrace import Dead, Retry, Snooze
from headrace.core.errors import InvalidFlow
from headrace.core.retry import RetryPolicy
from headrace.core.sources import HeldItem, ItemSettlement, ItemState
from headrace.runtime.failed_attempts import FailedAttempt
from headrace.services import log_to_stderr
from headrace.sources import SourceContext, SourceOptions
from headrace.testing.memory_source import MemorySource


class TestOutcomes:
    def test_an_item_is_done_with_its_result(self, bench: SourceBench) -> None:
        async def double(payload: int, context: SourceContext) -> None:
            context.result = 2 * payload

        bench.source.add("a", 21)
        bench.run(bench.serve(bench.worker(double), 1.0))
        row = bench.source.rows["a"]
        assert (row.state, row.attempts, row.result, row.failure) == (ItemState.DONE, 1, 42, None)

    def test_a_failed_attempt_is_retried_until_it_is_the_last(self, bench: SourceBench) -> None:
        heard: list[tuple[str, int, bool]] = []

        async def fail(_payload: Any, context: SourceContext) -> None:
            raise ValueError(f"attempt {context.attempt}")

        def note(error: BaseException, attempt: FailedAttempt) -> None:
            heard.append((str(error), attempt.attempt, attempt.dead))

        bench.source.add("a")
        worker = bench.worker(fail, retry=RetryPolicy(attempts_max=3, first_s=1.0), on_error=note)
        bench.run(bench.serve(worker, 20.0))
        row = bench.source.rows["a"]
        assert heard == [("attempt 1", 1, False), ("attempt 2", 2, False), ("attempt 3", 3, True)]
        assert (row.state, row.attempts) == (ItemState.DEAD, 3)
        assert row.failure is not None
        assert (row.failure.reason, row.failure.rule) == ("ValueError", "attempts_max")
        assert 'raise ValueError(f"attempt' in row.failure.traceback
        assert "runtime" not in row.failure.traceback

    def test_a_log_that_quotes_no_errors_has_classes_and_frames(
        self, bench: SourceBench, capsys: pytest.CaptureFixture[str]
    ) -> None:
        async def fail(payload: str, _context: SourceContext) -> None:
            try:
                raise KeyError(payload)
            except KeyError as error:
                raise ExceptionGroup(payload, [ValueError(payload)]) from error

        log_to_stderr()
        bench.source.add("a", "the-payload")
        worker = bench.worker(fail, retry=RetryPolicy(attempts_max=1), quotes_errors=False)
        bench.run(bench.serve(worker, 20.0))
        said = capsys.readouterr().err
        assert "the-payload" not in said
        assert "KeyError" in said
        assert "ExceptionGroup of ValueError" in said
        assert "raise KeyError(payload)" in said
        failure = bench.source.rows["a"].failure
        assert failure is not None
        assert "the-payload" in failure.traceback

    def test_an_item_has_its_own_limit_of_attempts(self, bench: SourceBench) -> None:
        async def fail(_payload: Any, _context: SourceContext) -> None:
            raise ValueError

        bench.source.add("a", attempts_max=2)
        bench.source.add("b", attempts_max=0)
        bench.run(bench.serve(bench.worker(fail), 20.0))
        assert [row.attempts for row in bench.source.rows.values()] == [2, 1]

    def test_dead_is_dead_at_once_and_a_snooze_spends_nothing(self, bench: SourceBench) -> None:
        async def answer(payload: str, context: SourceContext) -> Any:
            if payload == "die":
                return Dead("unknown type", "type")
            return Snooze(3.0) if context.fence == 1 else None

        bench.source.add("a", "die")
        bench.source.add("b", "wait")
        bench.run(bench.serve(bench.worker(answer), 10.0))
        dead, done = bench.source.rows["a"], bench.source.rows["b"]
        assert dead.failure is not None
        assert (dead.state, dead.failure.rule, dead.attempts) == (ItemState.DEAD, "type", 1)
        assert (done.state, done.attempts, done.fence) == (ItemState.DONE, 1, 2)

    @pytest.mark.parametrize("bad", [Retry, 7, Retry(after_s="soon")])  # type: ignore[arg-type]
    def test_an_answer_that_is_none_is_a_failed_attempt(self, bench: SourceBench, bad: Any) -> None:
        async def answer(_payload: Any, _context: SourceContext) -> Any:
            return bad

        bench.source.add("a", attempts_max=1)
        bench.run(bench.serve(bench.worker(answer), 1.0))
        failure = bench.source.rows["a"].failure
        assert failure is not None
        assert failure.reason == "InvalidFlow"

    def test_what_can_be_awaited_is_awaited(self, bench: SourceBench) -> None:
        ran: list[str] = []

        async def inner() -> None:
            ran.append("inner")

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(lambda _payload, _context: inner()), 1.0))
        assert ran == ["inner"]

    @pytest.mark.parametrize("error", [asyncio.CancelledError, GeneratorExit])
    def test_a_handler_that_ends_itself_has_failed(self, bench: SourceBench, error: type[BaseException]) -> None:
        async def cancel(_payload: Any, _context: SourceContext) -> None:
            raise error

        bench.source.add("a", attempts_max=1)
        bench.run(bench.serve(bench.worker(cancel), 1.0))
        failure = bench.source.rows["a"].failure
        assert failure is not None
        assert failure.reason == error.__name__

    def test_accepted_settlements_are_told_whatever_the_listener_does(self, bench: SourceBench) -> None:
        told: list[tuple[str, str, float]] = []

        def note(held: HeldItem, settlement: ItemSettlement) -> None:
            told.append((held.key, settlement.state, round(settlement.took_s, 3)))
            raise RuntimeError("broken listener")

        async def work(_payload: Any, _context: SourceContext) -> None:
            await take(2.0)

        bench.source.add("a")
        worker = bench.worker(work, on_settled=note)
        bench.run(bench.serve(worker, 5.0))
        assert told == [("a", "done", 2.0)]
        assert worker.observer.counts["on_settled.failed"] == 1


class TestTaking:
    def test_no_more_than_its_places_are_taken(self, bench: SourceBench) -> None:
        most: list[int] = []

        async def work(_payload: Any, _context: SourceContext) -> None:
            most.append(worker.in_progress)
            await take(1.0)

        for number in range(20):
            bench.source.add(f"i{number}")
        worker = bench.worker(work, in_progress_max=4)
        bench.run(bench.serve(worker, 10.0))
        assert max(most) == 4
        assert all(row.state is ItemState.DONE for row in bench.source.rows.values())

    def test_the_lowest_rank_comes_first(self, bench: SourceBench) -> None:
        order: list[str] = []

        async def work(_payload: Any, context: SourceContext) -> None:
            order.append(context.key)

        for number in range(10):
            bench.source.add(f"i{number}", rank=9 - number)
        bench.run(bench.serve(bench.worker(work, in_progress_max=1), 2.0))
        assert order == [f"i{number}" for number in reversed(range(10))]

    def test_two_workers_do_not_begin_with_the_same_items(self, bench: SourceBench) -> None:
        """Both poll in one instant; had they one order, one of them would miss nearly every time."""

        async def story() -> list[int]:
            workers = [bench.worker(nothing, in_progress_max=2) for _ in range(4)]
            workers[1]._seams.chance.random()
            await asyncio.gather(*(bench.serve(worker, 3.0) for worker in workers))
            return [worker.observer.counts["items.done"] for worker in workers]

        for number in range(32):
            bench.source.add(f"i{number}")
        assert sum(bench.run(story())) == 32

    def test_an_item_that_comes_is_taken_within_a_poll_without_a_ring(self) -> None:
        class Silent(MemorySource):
            def _ring(self) -> None:
                """It cannot know."""

        bench = SourceBench(Silent)

        async def story() -> float:
            serving = asyncio.ensure_future(bench.serve(bench.worker(nothing), 20.0))
            await take(7.123)
            began = bench.loop.time()
            bench.source.add("a")
            await bench.until(lambda: bench.source.rows["a"].state is ItemState.DONE)
            took_s = bench.loop.time() - began
            await serving
            return took_s

        assert bench.run(story()) <= OPTIONS.poll_s + 0.02

    def test_an_item_that_is_not_due_is_taken_when_it_is(self, bench: SourceBench) -> None:
        async def note(_payload: Any, context: SourceContext) -> None:
            context.result = bench.clock.wall() - due_at

        due_at = bench.clock.wall() + 3.3
        bench.source.add("a", due_at=due_at)
        bench.run(bench.serve(bench.worker(note), 5.0))
        assert 0 <= bench.source.rows["a"].result <= 0.02


class TestReports:
    def test_progress_is_kept_and_a_flood_of_it_is_not_sent(self) -> None:
        class Counting(MemorySource):
            reports = 0

            async def report(self, held: HeldItem, progress: Any) -> bool:
                self.reports += 1
                return await super().report(held, progress)

        bench = SourceBench(Counting)

        async def work(_payload: Any, context: SourceContext) -> None:
            for number in range(100):
                await context.report({"done": number})
                await take(0.05)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 10.0))
        assert isinstance(bench.source, Counting)
        assert 4 <= bench.source.reports <= 6
        assert bench.source.rows["a"].progress is not None

    def test_a_worker_that_gets_on_is_not_still(self, bench: SourceBench) -> None:
        seen: list[float] = []

        async def work(_payload: Any, _context: SourceContext) -> None:
            for _ in range(40):
                await take(0.5)
                seen.append(worker.still_s())

        bench.source.add("a")
        worker = bench.worker(work, in_progress_max=1)
        bench.run(bench.serve(worker, 25.0))
        assert max(seen) == 0.0

    def test_a_loop_that_is_stuck_shows(self, bench: SourceBench) -> None:
        worker = bench.worker(nothing)
        bench.loop._now += 30.0
        assert worker.still_s() == pytest.approx(27.0)


@pytest.mark.parametrize(
    "wrong", [{"hold_s": 0.0}, {"in_progress_max": 0}, {"returns": "all"}, {"on_settled": nothing}, {"on_error": 1}]
)
def test_options_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidFlow):
        SourceOptions(**wrong)
