"""What handlers answer: awaitables are awaited, whoever declared them, and what is no answer is a failed attempt."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from runtime_bench import QUICK, Bench
from waiting import turn

import headrace
from headrace.core.errors import HeadraceError, InvalidFlow
from headrace.core.outcomes import Dead, Done, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState, Tally
from headrace.runtime.context import Context, Out
from headrace.runtime.flow import Flow
from headrace.runtime.worker import Worker

ONCE = RetryPolicy(attempts_max=1)


def plainly(handler: Callable[..., Any]) -> Callable[..., Any]:
    """An ordinary decorator, as most are: it knows nothing of coroutines."""

    @functools.wraps(handler)
    def call(*values: Any, **named: Any) -> Any:
        return handler(*values, **named)

    return call


class Reader:
    """An object that is called."""

    def __init__(self, ran: list[int]) -> None:
        self._ran = ran

    async def __call__(self, number: int) -> None:
        await turn()
        self._ran.append(number)


class Later:
    """Can be awaited, and is no coroutine."""

    def __init__(self, ran: list[int], number: int) -> None:
        self._ran, self._number = ran, number

    def __await__(self) -> Iterator[Any]:
        yield from turn().__await__()
        self._ran.append(self._number)


def handlers(ran: list[int]) -> dict[str, Callable[..., Any]]:
    async def read(number: int) -> None:
        await turn()
        ran.append(number)

    async def read_with(extra: int, number: int) -> None:
        await turn()
        ran.append(number)

    async def twice(number: int) -> Any:
        return read(number)

    return {
        "decorated": plainly(read),
        "lambda": lambda number: read(number),
        "partial": functools.partial(read_with, 1),
        "object": Reader(ran),
        "partial_object": functools.partial(Reader(ran)),
        "later": lambda number: Later(ran, number),
        "twice": twice,
    }


@pytest.mark.parametrize("kind", handlers([]))
async def test_what_can_be_awaited_is_awaited(bench: Bench, kind: str) -> None:
    ran: list[int] = []
    flow = Flow("digest")
    flow.stage(name="read")(handlers(ran)[kind])
    view = await bench.run(flow, *range(5))
    assert (view.state, sorted(ran)) == (JobState.FINISHED, list(range(5)))


async def test_a_decorated_handler_sends_commits_and_fails_like_any_other(bench: Bench) -> None:
    flow, seen = Flow("digest"), []

    @flow.stage(feeds="read")
    @plainly
    async def find(count: int, out: Out, context: Context) -> None:
        for number in range(out.cursor or 0, count):
            out.send("read", number)
            await out.commit(cursor=number + 1)

    @flow.stage(retry=ONCE, tolerate=9)
    @plainly
    async def read(number: int) -> Any:
        await turn()
        if number == 1:
            raise ValueError("one")
        return Dead("two") if number == 2 else None

    @flow.stage(after="read")
    @plainly
    async def report(done: Tally) -> None:
        await turn()
        seen.append((done.done, done.dead))

    job = await bench.submit(flow, 5)
    async with bench.worker(flow):
        await bench.ended(job)
    assert seen == [(3, 2)]
    assert sorted(letter.reason for letter in await bench.dead(job)) == ["ValueError", "two"]


async def test_a_list_handler_below_a_decorator_runs(bench: Bench) -> None:
    flow, ran = Flow("digest"), []

    async def one(number: int) -> Dead | None:
        await turn()
        ran.append(number)
        return Dead("odd") if number % 2 else None

    @flow.stage(tolerate=9)
    @plainly
    async def read(numbers: list[int]) -> list[Any]:
        return [one(number) for number in numbers]

    job = await bench.submit(flow, *range(4))
    async with bench.worker(flow):
        await bench.ended(job)
    assert sorted(ran) == [0, 1, 2, 3]
    assert [letter.reason for letter in await bench.dead(job)] == ["odd", "odd"]


async def test_an_awaitable_is_within_the_timeout(bench: Bench) -> None:
    flow, ended = Flow("digest"), []

    @flow.stage(timeout_s=0.1, retry=ONCE)
    @plainly
    async def read(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    job = await bench.submit(flow, 7)
    async with bench.worker(flow):
        await bench.ended(job)
    assert [letter.reason for letter in await bench.dead(job)] == ["timeout"]
    assert ended == [7]


async def numbers_later() -> AsyncIterator[int]:
    yield 1


NO_ANSWERS: dict[str, tuple[Callable[[], Any], str]] = {
    "class": (lambda: headrace.Retry, "the class Retry, not an instance"),
    "tuple": (lambda: (Dead("x"), 1), "a tuple of 2"),
    "value": (lambda: {"secret": "payload"}, "a value of the type dict"),
    "error": (lambda: ValueError("x"), "a value of the type ValueError"),
    "generator": (lambda: (number for number in range(3)), "a generator, of which nothing has run"),
    "async_generator": (numbers_later, "a generator, of which nothing has run"),
}


@pytest.mark.parametrize("kind", NO_ANSWERS)
@pytest.mark.parametrize("threaded", [False, True])
async def test_what_is_no_answer_is_a_failed_attempt(bench: Bench, kind: str, threaded: bool) -> None:
    make, words = NO_ANSWERS[kind]
    flow = Flow("digest")

    async def read(number: int) -> Any:
        return make()

    def read_in_a_thread(number: int) -> Any:
        return make()

    flow.stage(name="read", retry=ONCE)(read_in_a_thread if threaded else read)
    job = await bench.submit(flow, 1)
    async with bench.worker(flow):
        assert (await bench.ended(job)).state is JobState.FAILED
    [letter] = await bench.dead(job)
    assert letter.reason == "InvalidFlow"
    assert words in letter.error
    assert "None, or an outcome: Done(), Retry(…), Dead(…), Snooze(…)" in letter.error
    assert "payload" not in letter.error


async def test_a_list_with_something_else_for_an_item_has_failed(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(retry=ONCE, tolerate=9)
    async def read(numbers: list[int]) -> list[Any]:
        return [headrace.Retry if number == 2 else None for number in numbers]

    job = await bench.submit(flow, 1, 2, 3)
    async with bench.worker(flow):
        view = await bench.ended(job)
    [letter] = await bench.dead(job)
    assert "the class Retry" in letter.error
    assert view.stages["read"].done == 2


async def test_a_stage_may_ignore_what_its_handler_returns(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(returns="ignore", feeds=("lists", "lazy"), tolerate=1)
    async def read(number: int, out: Out) -> Any:
        out.send("lists", number)
        out.send("lazy", number)
        return Dead("three") if number == 3 else number

    @flow.stage(returns="ignore")
    async def lists(numbers: list[int]) -> Any:
        return {"sum": sum(numbers)}

    @flow.stage(returns="ignore", retry=ONCE, tolerate=9)
    def lazy(number: int) -> Any:
        return (square for square in (number * number,))

    job = await bench.submit(flow, 1, 2, 3)
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert view.stages["read"].done == view.stages["lists"].done == 2
    assert view.stages["lazy"].dead == 2, "a generator that nobody runs is never done"


async def test_done_may_be_said(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage
    async def read(number: int) -> Done:
        return Done()

    assert (await bench.run(flow, 1)).state is JobState.FINISHED


def test_returns_is_one_of_two_words() -> None:
    with pytest.raises(InvalidFlow, match="returns='anything' is neither 'refuse' nor 'ignore'"):

        @Flow("digest").stage(returns="anything")  # type: ignore[arg-type]
        async def read(number: int) -> None: ...


class Yielding:
    def __call__(self, number: int) -> Iterator[int]:
        yield number


@pytest.mark.parametrize("handler", [print, int, Reader, functools.partial(print), Yielding(), 7])
def test_what_cannot_be_a_handler_is_refused_at_once(handler: Any) -> None:
    with pytest.raises(InvalidFlow):
        Flow("digest").stage(name="read")(handler)


class NoAddress(Dead):
    """A subclass that leaves its parent's fields away."""

    def __init__(self, who: int) -> None:
        self.who = who


def unusable_outcomes() -> dict[str, Any]:
    """What a handler without types may put into an outcome."""
    error: Any = ValueError("no address")
    return {
        "an error as the reason": Dead(error),
        "a rule that is a number": Dead("x", rule=error.args and 5),
        "no reason": Dead(error.__cause__),
        "a time as text": Retry("x", after_s=str(5)),  # type: ignore[arg-type]
        "a snooze for no time": Snooze(error.__cause__),
        "a subclass without fields": NoAddress(7),
    }


@pytest.mark.parametrize("raised", [True, False], ids=["raised", "returned"])
@pytest.mark.parametrize("kind", unusable_outcomes())
async def test_an_outcome_that_cannot_be_applied_is_a_failed_attempt(bench: Bench, kind: str, raised: bool) -> None:
    flow = Flow("digest")

    @flow.stage(retry=ONCE, tolerate=9)
    async def read(number: int) -> Any:
        outcome = unusable_outcomes()[kind]
        if number and raised:
            raise outcome
        return outcome if number else None

    job = await bench.submit(flow, 0, 1, 2)
    async with bench.worker(flow):
        view = await bench.ended(job)
    assert (view.stages["read"].done, view.stages["read"].dead) == (1, 2)
    for letter in await bench.dead(job):
        assert (letter.reason, letter.rule) == ("InvalidFlow", "attempts_max")
        assert "gave an outcome that cannot be applied" in letter.error


async def test_a_list_with_an_outcome_that_cannot_be_applied_loses_that_item_alone(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage(retry=ONCE, tolerate=9)
    async def read(numbers: list[int]) -> list[Any]:
        return [unusable_outcomes()["no reason"] if number == 1 else None for number in numbers]

    view = await bench.run(flow, *range(3))
    assert (view.stages["read"].done, view.stages["read"].dead) == (2, 1)


class Unreadable(HeadraceError):
    """An error that cannot even be asked."""

    @property
    def heals(self) -> bool:  # type: ignore[override]
        raise RuntimeError("cannot be asked")


async def test_an_item_that_cannot_be_judged_ends_its_worker_and_is_not_done(bench: Bench) -> None:
    flow = Flow("digest")

    @flow.stage
    async def read(number: int) -> None:
        raise Unreadable("anything")

    job = await bench.submit(flow, 1)
    with pytest.raises(RuntimeError, match="cannot be asked"):
        await Worker(bench.store, [flow], options=QUICK).run()
    assert (await bench.store.job(job)).stages["read"].done == 0
