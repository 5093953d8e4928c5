"""Failed attempts are heard of: a line of the log with the traceback, a call of `on_error`, a letter that keeps it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from runtime_bench import QUICK, Bench, Heard

import headrace
from headrace.core.claims import TRACEBACK_BYTES_MAX
from headrace.core.errors import InvalidFlow, InvalidPayload
from headrace.core.outcomes import Dead, Retry, Snooze
from headrace.core.retry import RetryPolicy
from headrace.core.tally import JobState
from headrace.runtime.context import Context
from headrace.runtime.failed_attempts import FailedAttempt, trace
from headrace.runtime.flow import Flow
from headrace.runtime.yard import WorkerOptions

TWICE = RetryPolicy(attempts_max=2, first_s=0)
ONCE = RetryPolicy(attempts_max=1)


def divide(number: int) -> float:
    return 1 / number


def failing(**options: Any) -> Flow:
    flow = Flow("digest")

    @flow.stage(name="read", retry=TWICE, tolerate=9, **options)
    async def read(number: int, context: Context) -> None:
        try:
            divide(number)
        except ZeroDivisionError as error:
            raise RuntimeError("cannot reach postgresql://me:hunter2@host/db") from error

    return flow


async def test_a_letter_keeps_the_traceback_with_its_causes_and_no_secret(bench: Bench) -> None:
    flow = failing()
    job = await bench.submit(flow, 0)
    async with bench.worker(flow):
        await bench.ended(job)
    [letter] = await bench.dead(job)
    assert "ZeroDivisionError: division by zero" in letter.traceback
    assert "in divide" in letter.traceback
    assert "The above exception was the direct cause" in letter.traceback
    assert letter.traceback.rstrip().endswith("RuntimeError: cannot reach postgresql://me:***@host/db")
    assert "hunter2" not in letter.traceback + letter.error


def blunt(number: int) -> None:
    divide(number)


async def sharp(number: int) -> None:
    divide(number)


@pytest.mark.parametrize("handler", [blunt, sharp])
async def test_a_traceback_begins_at_the_handler(bench: Bench, handler: Any) -> None:
    flow = Flow("digest")
    flow.stage(handler, name="read", retry=ONCE, tolerate=9)
    job = await bench.submit(flow, 0)
    async with bench.worker(flow):
        await bench.ended(job)
    [letter] = await bench.dead(job)
    frames = [line.split(" in ")[-1] for line in letter.traceback.splitlines() if line.startswith("  File")]
    assert frames == [handler.__name__, "divide"]


def test_a_traceback_of_the_runtime_alone_is_whole() -> None:
    flow = Flow("digest")
    with pytest.raises(InvalidFlow) as refused:
        flow.stage(retry=3)(blunt)
    refused.value.__traceback__ = refused.value.__traceback__ and refused.value.__traceback__.tb_next
    assert "headrace/runtime/" in trace(refused.value)


async def test_each_failed_attempt_is_a_warning_and_a_death_an_error(bench: Bench, heard: Heard) -> None:
    flow = failing()
    job = await bench.submit(flow, 0, 1)
    async with bench.worker(flow):
        await bench.ended(job)
    [letter] = await bench.dead(job)
    [(level, line)] = heard.of("item.failed")
    where = f"job={job} stage=read seq={letter.seq} key=None"
    assert level == "WARNING"
    assert f"{where} attempt=1 reason=RuntimeError\n    Traceback" in line
    assert "ZeroDivisionError" in line
    [(level, line)] = heard.of("item.dead")
    assert level == "ERROR"
    assert f"{where} attempt=2 reason=RuntimeError\n    Traceback" in line
    assert "hunter2" not in line


async def test_on_error_is_called_for_each_failed_attempt(bench: Bench) -> None:
    flow, calls = failing(), []

    def on_error(error: BaseException, attempt: FailedAttempt) -> None:
        calls.append((repr(error), type(error.__cause__), attempt))

    job = await bench.submit(flow, 0, 1)
    async with bench.worker(flow, options=replace(QUICK, on_error=on_error)):
        await bench.ended(job)
    [letter] = await bench.dead(job)
    words = "RuntimeError('cannot reach postgresql://me:hunter2@host/db')"
    first = headrace.FailedAttempt(job, "read", letter.seq, None, 1, dead=False)
    assert calls == [
        (words, ZeroDivisionError, first),
        (words, ZeroDivisionError, replace(first, attempt=2, dead=True)),
    ]


async def later(error: BaseException, attempt: FailedAttempt) -> None: ...


def broken(error: BaseException, attempt: FailedAttempt) -> None:
    raise SystemExit("no collector")


@pytest.mark.parametrize("on_error", [broken, lambda error, attempt: later(error, attempt)])
async def test_an_on_error_that_fails_is_logged_and_disturbs_nothing(bench: Bench, heard: Heard, on_error: Any) -> None:
    flow = failing()
    view = await bench.run(flow, 0, 1, options=replace(QUICK, on_error=on_error))
    assert (view.state, view.stages["read"].done, view.stages["read"].dead) == (JobState.FINISHED, 1, 1)
    assert [level for level, _ in heard.of("on_error.failed")] == ["WARNING", "WARNING"]


@pytest.mark.parametrize("on_error", [later, "print"])
def test_an_on_error_that_cannot_work_is_refused(on_error: Any) -> None:
    with pytest.raises(InvalidFlow, match="plain function"):
        WorkerOptions(on_error=on_error)


async def test_outcomes_are_heard_of_too_and_a_snooze_is_no_failure(bench: Bench, heard: Heard) -> None:
    flow, calls, naps = Flow("digest"), [], []

    @flow.stage(retry=TWICE, tolerate=9)
    async def read(what: str) -> Any:
        match what:
            case "dead":
                raise Dead("never", rule="size") from ValueError("why")
            case "retry":
                return Retry("busy", after_s=0)
            case "snooze" if not naps:
                naps.append(what)
                return Snooze(0)
        return None

    def on_error(error: BaseException, attempt: FailedAttempt) -> None:
        calls.append((type(error), attempt.attempt, attempt.dead))

    job = await bench.submit(flow, "dead", "retry", "snooze")
    async with bench.worker(flow, options=replace(QUICK, on_error=on_error)):
        await bench.ended(job)
    traces = {letter.reason: letter.traceback for letter in await bench.dead(job)}
    assert "ValueError: why" in traces["never"]
    assert traces["busy"] == ""
    assert sorted(calls, key=str) == [(Dead, 1, True), (Retry, 1, False), (Retry, 2, True)]


async def test_a_timeout_shows_where_the_handler_stood(bench: Bench) -> None:
    flow = Flow("digest")

    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    @flow.stage(timeout_s=0.1, retry=ONCE, feeds="lists", tolerate=9)
    async def read(number: int) -> None:
        await wait_for_nothing()

    @flow.stage(timeout_s=0.1, retry=ONCE)
    async def lists(numbers: list[int]) -> None:
        await wait_for_nothing()

    job = await bench.submit(flow, 1)
    async with bench.worker(flow):
        await bench.ended(job)
    [letter] = await bench.dead(job)
    assert letter.reason == "timeout"
    assert "in wait_for_nothing" in letter.traceback


async def test_a_payload_that_does_not_fit_is_heard_of(bench: Bench, heard: Heard) -> None:
    said, read_as, calls = Flow("digest"), Flow("digest"), []

    @said.stage(name="read")
    async def send_text(text: str) -> None: ...

    @read_as.stage(name="read")
    async def read(number: int) -> None: ...

    def on_error(error: BaseException, attempt: FailedAttempt) -> None:
        calls.append((type(error), attempt.dead))

    job = await bench.submit(said, "seven")
    async with bench.worker(read_as, options=replace(QUICK, on_error=on_error)):
        await bench.ended(job)
    assert calls == [(InvalidPayload, True)]
    assert [level for level, _ in heard.of("item.dead")] == ["ERROR"]
    assert "seven" not in str(heard.lines)


def deep(levels: int) -> None:
    try:
        if levels:
            deep(levels - 1)
        raise ValueError("x" * 2_000)
    except (ValueError, RuntimeError) as error:
        raise RuntimeError(f"level {levels} of many") from error


def test_a_traceback_is_bounded_and_keeps_both_ends() -> None:
    try:
        deep(30)
    except RuntimeError as error:
        text = trace(error)
    assert len(text.encode()) <= TRACEBACK_BYTES_MAX
    assert text.startswith("Traceback")
    assert text.rstrip().endswith("RuntimeError: level 30 of many")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_exception_without_words_has_a_traceback() -> None:
    assert "Mute" in trace(Mute())
