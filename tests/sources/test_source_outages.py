"""A worker of a source whose source, or what its handler needs, does not answer; and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from source_bench import OPTIONS, SourceBench, nothing, take

from headrace.core.errors import CallerError, SchemaMismatch, Unreachable
from headrace.core.sources import HeldItem, ItemCandidate, ItemSettlement, ItemState, Polled
from headrace.sources import SourceContext
from headrace.testing.memory_source import MemorySource


class TestOutages:
    def test_an_outage_of_the_source_is_waited_out(self) -> None:
        class Failing(MemorySource):
            up = False

            async def poll(self, count_max: int) -> Polled:
                if not self.up:
                    raise Unreachable("no answer")
                return await super().poll(count_max)

        bench = SourceBench(Failing)

        async def story() -> None:
            serving = asyncio.ensure_future(bench.serve(worker, 60.0))
            await take(30.0)
            setattr(bench.source, "up", True)  # noqa: B010 - a class of this test
            await bench.until(lambda: bench.source.rows["a"].state is ItemState.DONE, 3.0)
            await serving

        bench.source.add("a")
        worker = bench.worker(nothing)
        bench.run(story())
        assert worker.observer.counts["source.failing"] > 5
        assert bench.source.rows["a"].attempts == 1

    def test_a_source_that_never_answers_is_asked_again(self) -> None:
        class Mute(MemorySource):
            polls = 0

            async def poll(self, count_max: int) -> Polled:
                self.polls += 1
                if self.polls == 1:
                    await asyncio.Event().wait()
                return await super().poll(count_max)

        bench = SourceBench(Mute)
        bench.source.add("a")
        bench.run(bench.serve(bench.worker(nothing), 10.0))
        assert bench.source.rows["a"].state is ItemState.DONE

    def test_an_outage_of_what_the_handler_needs_spends_no_attempt(self, bench: SourceBench) -> None:
        calls: list[float] = []

        async def work(_payload: Any, _context: SourceContext) -> None:
            calls.append(bench.loop.time())
            if bench.loop.time() < 20.0:
                raise Unreachable("the sink is away")

        for number in range(5):
            bench.source.add(f"i{number}")
        bench.run(bench.serve(bench.worker(work), 40.0))
        assert all((row.state, row.attempts) == (ItemState.DONE, 1) for row in bench.source.rows.values())
        # The breaker opened: five at first, and from then on one per pause.
        assert len([at for at in calls if at < 20.0]) < 16

    def test_an_error_that_does_not_heal_ends_the_worker_and_what_is_held_goes_back(self) -> None:
        class Broken(MemorySource):
            async def poll(self, count_max: int) -> Polled:
                if self.rows["a"].holder:
                    raise SchemaMismatch("another version")
                return await super().poll(count_max)

        bench = SourceBench(Broken)

        async def work(_payload: Any, _context: SourceContext) -> None:
            await take(50.0)

        bench.source.add("a")
        with pytest.raises(SchemaMismatch):
            bench.run(bench.worker(work).run())
        row = bench.source.rows["a"]
        assert (row.state, row.holder, row.attempts) == (None, "", 0)

    def test_an_item_that_cannot_be_held_leaves_the_others_alone(self) -> None:
        class OneBad(MemorySource):
            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                if candidate.key == "bad":
                    raise CallerError("a number that no column holds")
                return await super().hold(candidate, holder, hold_s)

        bench = SourceBench(OneBad)
        for key in ("a", "bad", "b"):
            bench.source.add(key)
        worker = bench.worker(nothing, in_progress_max=1)
        bench.run(bench.serve(worker, 10.0))
        assert [row.state for row in bench.source.rows.values()] == [ItemState.DONE, None, ItemState.DONE]
        assert worker.observer.counts["hold.failed"] > 1

    @pytest.mark.parametrize("kind", [SchemaMismatch, RuntimeError])
    def test_a_hold_that_fails_for_all_ends_the_worker(self, kind: type[Exception]) -> None:
        class Broken(MemorySource):
            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                raise kind("another version")

        bench = SourceBench(Broken)
        bench.source.add("a")
        with pytest.raises(kind):
            bench.run(bench.worker(nothing).run())

    def test_a_settlement_is_repeated_as_it_was(self) -> None:
        class Losing(MemorySource):
            heard: list[ItemSettlement]

            async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
                self.heard = [*getattr(self, "heard", []), settlement]
                answer = await super().settle(held, settlement)
                if len(self.heard) < 3:
                    raise Unreachable("the answer was lost")
                return answer

        bench = SourceBench(Losing)
        bench.source.add("a")
        worker = bench.worker(nothing)
        bench.run(bench.serve(worker, 5.0))
        assert isinstance(bench.source, Losing)
        assert len(bench.source.heard) == 3
        assert len(set(bench.source.heard)) == 1
        assert worker.observer.counts["items.done"] == 1

    def test_a_settlement_that_was_applied_is_not_taken_for_a_lost_hold(self) -> None:
        """Its answers are lost until after the next renewal, which is refused because the hold has ended well."""

        class Applying(MemorySource):
            async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
                answer = await super().settle(held, settlement)
                if bench.loop.time() < 1.8:
                    raise Unreachable("the answer was lost")
                return answer

        bench, told = SourceBench(Applying), []
        bench.source.add("a")
        worker = bench.worker(nothing, on_settled=lambda held, _settlement: told.append(held.key))
        bench.run(bench.serve(worker, 5.0))
        assert told == ["a"]
        assert worker.observer.counts["hold.lost"] == 0


class TestDraining:
    def test_a_drain_lets_handlers_end_and_gives_back_the_rest(self, bench: SourceBench) -> None:
        async def work(payload: float, _context: SourceContext) -> None:
            await take(payload)

        bench.source.add("short", 4.0)
        bench.source.add("long", 40.0)
        worker = bench.worker(work, drain_s=8.0)
        bench.run(bench.serve(worker, 1.0))
        short, long = bench.source.rows["short"], bench.source.rows["long"]
        assert short.state is ItemState.DONE
        assert (long.state, long.holder, long.attempts) == (None, "", 0)
        assert bench.loop.time() == pytest.approx(9.0, abs=0.1)

    def test_a_stop_gives_everything_back_at_once(self, bench: SourceBench) -> None:
        async def work(_payload: Any, _context: SourceContext) -> None:
            await take(40.0)

        bench.source.add("a")
        worker = bench.worker(work)
        bench.loop.call_later(2.0, worker.stop_now)
        bench.run(worker.run())
        row = bench.source.rows["a"]
        assert (row.holder, row.attempts) == ("", 0)
        assert bench.loop.time() == pytest.approx(2.0, abs=0.1)

    def test_what_is_held_while_it_drains_is_given_back_unbegun(self) -> None:
        class Slow(MemorySource):
            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                await take(0.8)
                return await super().hold(candidate, holder, hold_s)

        bench, begun = SourceBench(Slow), []

        async def work(_payload: Any, context: SourceContext) -> None:
            begun.append(context.key)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work), 0.5))
        row = bench.source.rows["a"]
        assert (begun, row.fence, row.holder, row.attempts) == ([], 1, "", 0)

    @pytest.mark.parametrize("mute", ["poll", "hold", "give_back", "settle"])
    def test_a_source_that_does_not_answer_does_not_keep_the_worker(self, mute: str) -> None:
        class Mute(MemorySource):
            async def poll(self, count_max: int) -> Polled:
                return await answered("poll", super().poll(count_max))

            async def hold(self, candidate: ItemCandidate, holder: str, hold_s: float) -> HeldItem | None:
                return await answered("hold", super().hold(candidate, holder, hold_s))

            async def give_back(self, held: HeldItem) -> bool:
                return await answered("give_back", super().give_back(held))

            async def settle(self, held: HeldItem, settlement: ItemSettlement) -> bool:
                return await answered("settle", super().settle(held, settlement))

        async def answered(name: str, call: Any) -> Any:
            if name == mute:
                call.close()
                await asyncio.Event().wait()
            return await call

        bench = SourceBench(Mute)

        async def work(_payload: Any, _context: SourceContext) -> None:
            await take(400.0 if mute == "give_back" else 0.1)

        bench.source.add("a")
        bench.run(bench.serve(bench.worker(work, drain_s=2.0), 2.0))
        in_hand_s = 0.0 if mute == "poll" else 2.0 + OPTIONS.answer_s_max + 2 * OPTIONS.grace_s
        assert bench.loop.time() <= 2.0 + in_hand_s + 0.1

    def test_a_worker_whose_task_is_cancelled_while_it_polls_is_cancelled(self) -> None:
        class Mute(MemorySource):
            async def poll(self, count_max: int) -> Polled:
                polling.set()
                await asyncio.Event().wait()
                return Polled()

        bench, polling = SourceBench(Mute), asyncio.Event()

        async def story() -> None:
            running = asyncio.ensure_future(bench.worker(nothing).run())
            await polling.wait()
            running.cancel()
            await asyncio.wait([running], timeout=10.0)
            assert running.cancelled()

        bench.run(story())
