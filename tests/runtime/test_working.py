"""The loop of a worker: claim, handle, settle; and what handlers may ask for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from runtime_bench import Bench
from waiting import PATIENCE_S, turn

from headrace.core.errors import CallerError, InvalidFlow
from headrace.core.jobs import Submission
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.retry import RetryPolicy, backoff
from headrace.core.tally import JobState, Tally
from headrace.runtime.codec import codec_for, pack_values
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker

AT_ONCE = RetryPolicy(attempts_max=3, first_s=0)


async def test_a_fan_out_is_counted_and_its_barrier_runs_once(bench: Bench) -> None:
    flow, reports = Flow("digest"), []

    @flow.stage(feeds="read")
    async def find(count: int, out: Out) -> None:
        for number in range(count):
            assert out.send("read", number, key=str(number))

    @flow.stage
    async def read(number: int) -> None: ...

    @flow.stage(after="read")
    async def report(done: Tally) -> None:
        reports.append(done)

    view = await bench.run(flow, 1_200)
    assert view.state is JobState.FINISHED
    assert view.stages["read"].done == 1_200
    assert [(tally.total, tally.done) for tally in reports] == [(1_200, 1_200)]


async def test_a_barrier_may_see_each_stage_by_name_or_nothing(bench: Bench) -> None:
    flow, seen = Flow("digest"), []

    @flow.stage(feeds="two")
    async def one(number: int, out: Out) -> None:
        out.send("two", number)

    @flow.stage
    async def two(number: int) -> None: ...

    @flow.stage(after=("one", "two"))
    async def each(done: dict[str, Tally], context: Context) -> None:
        seen.append({name: tally.done for name, tally in done.items()})
        seen.append({name: every.done for name, (_, every) in context.tallies.items()})

    @flow.stage(after="each")
    def last() -> None:
        seen.append("last")

    await bench.run(flow, 1, 2, 3)
    assert seen == [{"one": 3, "two": 3}, {"one": 3, "two": 3}, "last"]


async def test_a_sync_handler_runs_beside_the_event_loop(bench: Bench) -> None:
    flow, threads = Flow("digest"), set()

    @flow.stage(feeds="two")
    def one(number: int, out: Out) -> None:
        threads.add(threading.get_ident())
        out.send("two", number)

    @flow.stage
    async def two(number: int) -> None: ...

    view = await bench.run(flow, *range(20))
    assert view.stages["two"].done == 20
    assert threading.get_ident() not in threads


async def test_every_item_has_its_own_context(bench: Bench) -> None:
    flow, seen = Flow("digest"), {}

    @flow.stage(concurrency=5)
    async def one(number: int, context: Context) -> None:
        await turn()
        seen[number] = (context.seq, context.effect_key, context.effect("mail").key, context.attempt, context.fence)
        assert (context.flow, context.stage, context.tenant, context.generation) == ("digest", "one", "default", 1)
        assert context.key is None
        assert not context.ending

    view = await bench.run(flow, *range(50))
    assert len({seq for seq, *_ in seen.values()}) == 50
    seq, effect_key, named, attempt, fence = seen[7]
    assert effect_key == f"{view.id}/one/{seq}"
    assert named == f"{view.id}/one/{seq}/mail"
    assert attempt == 1
    assert fence > 0


async def test_outcomes_may_be_returned_or_raised(bench: Bench) -> None:
    flow, calls = Flow("digest"), Counter[str]()

    @flow.stage(retry=AT_ONCE, tolerate=2)
    async def one(what: str) -> Any:
        calls[what] += 1
        match what:
            case "dead":
                return Dead("never", rule="size")
            case "raised":
                raise Dead("raised")
            case "retry" if calls[what] == 1:
                return Retry("later", after_s=0)
            case "snooze" if calls[what] < 6:
                raise Snooze(0)
        return None

    job = await bench.submit(flow, "dead", "raised", "retry", "snooze", "fine")
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert view.state is JobState.FINISHED
    assert (view.stages["one"].done, view.stages["one"].dead) == (3, 2)
    assert calls == {"dead": 1, "raised": 1, "retry": 2, "snooze": 6, "fine": 1}
    assert {(letter.reason, letter.rule) for letter in await bench.dead(job)} == {("never", "size"), ("raised", "")}


async def test_an_exception_is_tried_again_until_its_policy_ends(bench: Bench) -> None:
    flow, attempts = Flow("digest"), []

    @flow.stage(retry=AT_ONCE)
    async def one(number: int, context: Context) -> None:
        attempts.append(context.attempt)
        raise ValueError("wrong " + "x" * 10_000)

    job = await bench.submit(flow, 1)
    async with bench.worker(flow):
        assert (await bench.ended(job)).state is JobState.FAILED
    assert attempts == [1, 2, 3]
    (letter,) = await bench.dead(job)
    assert (letter.reason, letter.rule, letter.attempts) == ("ValueError", "attempts_max", 3)
    assert letter.error.startswith("ValueError: wrong")
    assert "test_working.py" in letter.error
    assert len(letter.error) <= 4_000


async def test_a_policy_may_never_retry_one_exception(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(retry=backoff(5, per={KeyError: None}))
    async def one(number: int) -> None:
        calls.append(number)
        raise KeyError("gone")

    await bench.run(flow, 1)
    assert calls == [1]


async def test_an_item_of_another_code_version_dies_alone(bench: Bench) -> None:
    flow, seen = Flow("digest"), []

    @flow.stage(tolerate=1)
    async def one(number: int) -> None:
        seen.append(number)

    parcels = tuple(pack_values(codec_for("one", Any), [1, "two", 3]))
    job = (await bench.store.submit(Submission("job", "digest", flow.graph, parcels))).job
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert (view.stages["one"].done, view.stages["one"].dead) == (2, 1)
    assert sorted(seen) == [1, 3]
    (letter,) = await bench.dead(job)
    assert (letter.reason, letter.rule) == ("invalid_payload", "payload")


async def test_a_handler_that_never_waits_does_not_starve_the_loop(bench: Bench) -> None:
    flow, done, in_a_row = Flow("digest"), 0, [0]

    @flow.stage(concurrency=1)
    async def one(number: int) -> None:
        nonlocal done
        time.sleep(0.001)  # noqa: ASYNC251 - a handler that computes
        done += 1

    job = await bench.submit(flow, *range(500))
    async with asyncio.timeout(PATIENCE_S), bench.worker(flow):
        while done < 500:
            before = done
            await turn()
            in_a_row.append(done - before)
        await bench.ended(job)
    assert max(in_a_row) <= 10


async def test_concurrency_is_a_limit_and_is_used(bench: Bench) -> None:
    flow, running, most, all_lanes_run = Flow("digest"), 0, 0, asyncio.Event()

    @flow.stage(concurrency=7)
    async def one(number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 7:
            all_lanes_run.set()
        await all_lanes_run.wait()
        await turn()
        running -= 1

    await bench.run(flow, *range(100))
    assert most == 7


async def test_a_handler_may_raise_what_ends_programs(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(retry=AT_ONCE)
    async def one(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise SystemExit(3)
        if len(calls) == 2:
            raise asyncio.CancelledError

    assert (await bench.run(flow, 1)).state is JobState.FINISHED


async def closes(number: int) -> None:
    if number == 2:
        raise GeneratorExit


def closes_in_a_thread(number: int) -> None:
    if number == 2:
        raise GeneratorExit


async def closes_of_a_list(numbers: list[int]) -> None:
    if 2 in numbers:
        raise GeneratorExit


@pytest.mark.parametrize("handler", [closes, closes_in_a_thread, closes_of_a_list], ids=lambda each: each.__name__)
async def test_what_ends_coroutines_ends_no_worker(bench: Bench, handler: Callable[..., Any]) -> None:
    """Whoever closes a coroutine throws it in, and a handler may raise it all the same."""
    flow = Flow("digest")
    flow.stage(handler, retry=AT_ONCE, tolerate=1)
    (tally,) = (await bench.run(flow, *range(5))).stages.values()
    assert (tally.done, tally.dead) == (4, 1)


async def test_a_handler_that_cancels_itself_has_failed(bench: Bench) -> None:
    flow, calls = Flow("digest"), Counter[int]()

    @flow.stage(retry=AT_ONCE, concurrency=1, tolerate=1)
    async def one(number: int) -> None:
        calls[number] += 1
        if number == 2:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await turn()

    view = await bench.run(flow, *range(5))
    assert (view.stages["one"].done, view.stages["one"].dead) == (4, 1)
    assert calls == {0: 1, 1: 1, 2: 3, 3: 1, 4: 1}


async def test_a_sync_handler_may_raise_anything(bench: Bench) -> None:
    flow, calls = Flow("digest"), []

    @flow.stage(retry=AT_ONCE)
    def one(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise StopIteration
        if len(calls) == 2:
            raise SystemExit(3)

    assert (await bench.run(flow, 1)).state is JobState.FINISHED


async def test_two_flows_of_one_name_are_refused(bench: Bench) -> None:
    flows = [Flow("digest"), Flow("digest")]
    for flow in flows:

        @flow.stage
        async def one(number: int) -> None: ...

    with pytest.raises(InvalidFlow, match="two flows are called 'digest'"):
        Worker(bench.store, flows)


async def test_a_worker_without_stages_is_refused(bench: Bench) -> None:
    with pytest.raises(InvalidFlow, match="at least one stage"):
        Worker(bench.store, [])


async def test_a_context_is_only_for_use_inside_its_handler(bench: Bench) -> None:
    flow, kept = Flow("digest"), []

    @flow.stage
    async def one(number: int, context: Context, out: Out) -> None:
        kept.extend((context, out))

    await bench.run(flow, 1)
    with pytest.raises(CallerError, match="only for use"):
        _ = kept[0].job
    with pytest.raises(CallerError, match="over"):
        kept[1].send("two", 1)
