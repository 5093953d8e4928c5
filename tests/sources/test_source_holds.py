"""What a worker of a source does when a hold ends, or its handler does not."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from source_bench import SourceBench, nothing, take

from headrace.core.errors import ClaimLost, HandlersHang, Unknown, Unreachable
from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled
from headrace.sources import SourceContext, SourceFeatures
from headrace.testing.memory_source import MemorySource


class TestHolds:
    def test_a_long_handler_keeps_its_hold(self, bench: SourceBench) -> None:
        async def work(_payload: Any, _context: SourceContext) -> None:
            await take(50.0)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 55.0))
        row = bench.source.rows["a"]
        assert (row.state, row.fence) == (ItemState.DONE, 1)

    def test_a_refused_renewal_ends_the_handler_and_nothing_is_written(self, bench: SourceBench) -> None:
        stopped: list[float] = []

        async def work(_payload: Any, context: SourceContext) -> None:
            if context.fence > 5:
                return
            try:
                await take(50.0)
            finally:
                stopped.append(bench.loop.time())

        async def story() -> None:
            serving = asyncio.ensure_future(bench.serve(worker, 9.0))
            await bench.until(lambda: bench.source.rows["a"].holder)
            bench.source.rows["a"].fence = 5
            await serving

        bench.source.add("a")
        worker = bench.worker(work)
        bench.run(story())
        row = bench.source.rows["a"]
        # The renewal at a third was refused; the item was another's until that hold had passed.
        assert stopped == [pytest.approx(1.0, abs=0.05)]
        assert worker.observer.counts["hold.lost"] == 1
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 6)

    def test_a_renewal_can_be_asked_for_before_its_time(self, bench: SourceBench) -> None:
        ended_at: list[float] = []

        async def work(_payload: Any, _context: SourceContext) -> None:
            try:
                await take(50.0)
            finally:
                ended_at.append(bench.clock.monotonic())

        async def story() -> None:
            serving = asyncio.ensure_future(bench.serve(worker, 3.0))
            await bench.until(lambda: bench.source.rows["a"].holder)
            await take(0.05)
            asked_at = bench.clock.monotonic()
            assert worker.renew_now({"a", "b"}) == {"a"}
            await take(0.05)
            assert ended_at == []
            bench.source.rows["a"].fence += 1
            worker.renew_now({"a"})
            await take(0.05)
            assert len(ended_at) == 1
            assert ended_at[0] - asked_at < 0.2
            await serving

        bench.source.add("a")
        worker = bench.worker(work)
        bench.run(story())

    def test_unanswered_renewals_end_the_handler_before_the_hold_ends(self) -> None:
        class Mute(MemorySource):
            async def renew(self, held: HeldItem, hold_s: float) -> bool:
                await asyncio.Event().wait()
                return True

        bench, stopped = SourceBench(Mute), []

        async def work(_payload: Any, context: SourceContext) -> None:
            if context.fence == 2:
                return
            try:
                await take(50.0)
            finally:
                stopped.append(bench.loop.time())

        bench.source.add("a")
        worker = bench.worker(work)
        bench.run(bench.serve(worker, 9.0))
        row = bench.source.rows["a"]
        assert stopped == [pytest.approx(2.7, abs=0.05)]
        assert worker.observer.counts["hold.lost"] == 1
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 2)

    def test_a_handler_takes_no_step_after_its_hold_though_the_loop_was_blocked(self) -> None:
        """The clock jumps while the handler waits, as for a process that was stopped; its next step is due before any
        timer of the worker."""
        renewed: list[int] = []

        class Heard(MemorySource):
            async def renew(self, held: HeldItem, hold_s: float) -> bool:
                renewed.append(held.fence)
                return await super().renew(held, hold_s)

        bench = SourceBench(Heard)
        steps: list[str] = []

        async def work(_payload: Any, context: SourceContext) -> None:
            if context.fence == 2:
                return
            await take(0.1)
            steps.append("too late")

        async def story() -> None:
            serving = asyncio.ensure_future(bench.serve(worker, 9.0))
            await bench.until(lambda: bench.source.rows["a"].holder)
            bench.loop._now += 20.0
            await serving

        bench.source.add("a")
        worker = bench.worker(work)
        bench.run(story())
        assert steps == []
        # It is no failed attempt, and what has passed is not asked for.
        assert (worker.observer.counts["hold.lost"], worker.observer.counts["item.failed"]) == (1, 0)
        assert 1 not in renewed

    @pytest.mark.parametrize("call", ["settle", "give_back"])
    def test_an_end_of_several_statements_takes_no_step_after_the_hold(self, call: str) -> None:
        """The process was stopped between two statements of a source that has no transaction over them."""
        sent: list[int] = []

        class Stepwise(MemorySource):
            async def _two(self, name: str, fence: int) -> None:
                if name == call and fence == 1:
                    answered = bench.loop.create_future()
                    bench.loop.call_later(0.05, frozen, answered)
                    await answered
                    sent.append(fence)

            async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
                await self._two("settle", held.fence)
                return await super().settle(held, settlement)

            async def give_back(self, held: HeldItem) -> bool:
                await self._two("give_back", held.fence)
                return await super().give_back(held)

        def frozen(answered: asyncio.Future[None]) -> None:
            bench.loop._now += 20.0
            answered.set_result(None)

        bench = SourceBench(Stepwise)

        async def work(_payload: Any, context: SourceContext) -> None:
            if context.fence == 1 and call == "give_back":
                draining.drain()
                await take(10.0)

        async def story() -> None:
            await bench.serve(draining, 40.0)
            await bench.serve(bench.worker(work), 40.0)

        bench.source.add("a")
        draining = bench.worker(work, drain_s=0.0)
        bench.run(story())
        assert sent == []
        row = bench.source.rows["a"]
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 2)

    @pytest.mark.parametrize("call", ["hold", "begin_alone", "renew"])
    def test_what_begins_or_keeps_a_hold_takes_no_step_after_it(self, call: str) -> None:
        """As a source does that writes more than a lock: a job that was deleted from its queue by a process that was
        stopped meanwhile may have been put back by then."""
        sent: list[int] = []

        class Stepwise(MemorySource):
            async def _second(self, name: str, fence: int) -> None:
                if name == call and fence == 1:
                    answered = bench.loop.create_future()
                    bench.loop.call_later(0.05, frozen, answered)
                    await answered
                    sent.append(fence)

            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                held = await super().hold(candidate, holder, hold_s)
                await self._second("hold", 0 if held is None else held.fence)
                return held

            async def begin_alone(self, held: HeldItem) -> bool:
                await self._second("begin_alone", held.fence)
                return await super().begin_alone(held)

            async def renew(self, held: HeldItem, hold_s: float) -> bool:
                kept = await super().renew(held, hold_s)
                await self._second("renew", held.fence)
                return kept

        def frozen(answered: asyncio.Future[None]) -> None:
            bench.loop._now += 20.0
            answered.set_result(None)

        async def work(_payload: Any, context: SourceContext) -> None:
            await take(2.0 if context.fence == 1 else 0.1)

        bench = SourceBench(Stepwise)
        bench.source.add("a", suspect=True)
        bench.run(bench.serve(bench.worker(work), 40.0))
        assert sent == []
        row = bench.source.rows["a"]
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 2)

    def test_a_hold_that_was_given_up_is_not_taken_again_under_its_fence(self) -> None:
        fences: list[int] = []

        class Slow(MemorySource):
            """Its holds last longer than it says, so that it answers with the old one again, and renews nothing."""

            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                return await super().hold(candidate, holder, 3 * hold_s)

            async def poll(self, count_max: int) -> Polled:
                return Polled(tuple(ItemCandidate(key) for key, row in self.rows.items() if row.state is None))

            async def renew(self, held: HeldItem, hold_s: float) -> bool:
                raise Unreachable("cut off")

        bench = SourceBench(Slow)

        async def work(_payload: Any, context: SourceContext) -> None:
            fences.append(context.fence)
            if context.fence == 1:
                await take(50.0)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 15.0))
        assert fences == [1, 2]

    def test_a_sink_that_knows_of_a_lost_hold_spends_no_attempt(self, bench: SourceBench) -> None:
        async def work(_payload: Any, context: SourceContext) -> None:
            if context.fence == 1:
                raise ClaimLost("a newer fence was there", context.fence)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 9.0))
        row = bench.source.rows["a"]
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 2)

    def test_an_answer_that_was_long_on_its_way_is_not_used(self) -> None:
        class Late(MemorySource):
            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                held = await super().hold(candidate, holder, hold_s)
                if held is not None and held.fence == 1:
                    for _ in range(3):
                        with contextlib.suppress(asyncio.CancelledError):
                            await take(2.8)
                return held

        bench, fences = SourceBench(Late), []

        async def work(_payload: Any, context: SourceContext) -> None:
            fences.append(context.fence)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 30.0))
        assert 1 not in fences
        assert bench.source.rows["a"].state is ItemState.DONE

    def test_a_refused_report_ends_the_handler_and_nothing_is_written(self) -> None:
        class Refusing(MemorySource):
            async def report(self, held: HeldItem, progress: Any) -> bool:
                return held.fence > 1

        bench = SourceBench(Refusing)

        async def work(_payload: Any, context: SourceContext) -> None:
            await context.report({"done": 1})
            if context.fence == 1:
                await take(50.0)

        bench.source.add("a")
        worker = bench.worker(work)
        bench.run(bench.serve(worker, 9.0))
        row = bench.source.rows["a"]
        assert worker.observer.counts["hold.lost"] == 1
        assert (row.state, row.attempts, row.fence) == (ItemState.DONE, 1, 2)

    def test_an_unknown_hold_is_asked_for_again_only_where_a_repeat_is_known(self) -> None:
        class Unrepeatable(MemorySource):
            holds = 0

            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                self.holds += 1
                await super().hold(candidate, holder, hold_s)
                raise Unknown("the answer was lost")

        asked: list[int] = []
        for repeats in (True, False):
            bench = SourceBench(Unrepeatable)
            bench.source.features = SourceFeatures(holds_repeat=repeats)
            bench.source.add("a")
            bench.run(bench.serve(bench.worker(nothing), 1.0))
            assert isinstance(bench.source, Unrepeatable)
            asked.append(bench.source.holds)
        assert asked[0] > 2
        assert asked[1] == 1


class TestTimeouts:
    def test_a_timeout_is_a_failed_attempt(self, bench: SourceBench) -> None:
        async def work(_payload: Any, context: SourceContext) -> None:
            assert context.left_s == pytest.approx(5.0)
            await take(50.0)

        bench.source.add("a", timeout_s=5.0, attempts_max=1)
        bench.run(bench.serve(bench.worker(work), 10.0))
        row = bench.source.rows["a"]
        assert row.failure is not None
        assert (row.state, row.attempts, row.failure.reason) == (ItemState.DEAD, 1, "timeout")
        assert "await take(50.0)" in row.failure.traceback

    def test_a_handler_that_swallows_its_cancellation_keeps_its_place(self, bench: SourceBench) -> None:
        async def work(payload: str, _context: SourceContext) -> None:
            if payload == "stubborn":
                with contextlib.suppress(asyncio.CancelledError):
                    await take(50.0)
                await take(12.0)

        async def story() -> None:
            serving = asyncio.ensure_future(bench.serve(worker, 30.0))
            await bench.until(lambda: bench.source.rows["a"].state is ItemState.DEAD)
            assert (worker.hung, worker.in_progress) == (1, 1)
            await bench.until(lambda: not worker.hung)
            await serving

        bench.source.add("a", "stubborn", timeout_s=1.0, attempts_max=1)
        worker = bench.worker(work)
        bench.run(story())
        assert worker.observer.counts["handler.hung"] == 1

    def test_a_worker_of_which_nothing_is_left_ends(self, bench: SourceBench) -> None:
        async def work(_payload: Any, _context: SourceContext) -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await take(500.0)

        for number in range(2):
            bench.source.add(f"i{number}", timeout_s=1.0, attempts_max=1)
        with pytest.raises(HandlersHang, match="2 handlers of 'jobs'"):
            bench.run(bench.worker(work, in_progress_max=2).run())
        assert all(row.state is ItemState.DEAD for row in bench.source.rows.values())
