"""A service in a process of its own: what it says is known at once, and it can be killed, frozen, woken and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import eventually, until

from headrace.errors import OperatorError
from headrace.services import Program
from headrace.testing import ServiceProcess
from headrace.testing.rig.children import FROZEN, started_at, state_of

Start = Callable[[str], ServiceProcess]
WAIT_S = 60.0
SERVING = "print('shop is ready at http://127.0.0.1:1', flush=True)\n"
# Says what it is told, and ends in order when it is asked to.
TALKING = f"""
import signal, sys
def end(number, frame):
    print("ends in order", flush=True)
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
{SERVING}
for line in sys.stdin:
    print(line, end="", flush=True)
signal.pause()
"""
STUBBORN = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVING}signal.pause()"
SILENT = "import sys; print('looks for its store'); print('no store', file=sys.stderr); sys.exit(4)"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ServiceProcess] = []

    def run(code: str) -> ServiceProcess:
        program = Program("shop", (sys.executable, "-c", code), os.environ)
        started.append(ServiceProcess(program, tmp_path / "shop.log", tmp_path))
        return started[-1]

    yield run
    for each in started:
        each.kill()


def test_lines_are_there_as_they_are_printed_and_once_they_were(start: Start) -> None:
    process = start(TALKING)
    later = process.line_with("word", 2)
    assert process.url == "http://127.0.0.1:1"
    process.say("first word")
    assert process.line_with("word").result(WAIT_S) == "first word"
    assert not later.done()
    process.say("second word")
    assert later.result(WAIT_S) == "second word"
    assert process.line_with("word").result(0) == "first word"


def test_a_service_that_ends_before_it_is_ready_is_named_with_its_log(start: Start, tmp_path: Path) -> None:
    process = start(SILENT)
    with pytest.raises(OperatorError, match=r"shop .* has not said 'is ready at'") as failed:
        _ = process.url
    assert failed.value.hint == f"see {tmp_path / 'shop.log'}"
    assert (tmp_path / "shop.log").read_text() == "no store\n"
    assert process.lines == ["looks for its store"]
    with pytest.raises(OperatorError, match="never"):
        process.line_with("never").result(WAIT_S)


async def test_inside_of_its_block_it_is_ready_and_afterwards_it_has_ended_in_order(start: Start) -> None:
    async with start(TALKING) as process:
        assert await process.ready() == process.url
    assert process.process.returncode == 3
    assert process.lines[-1] == "ends in order"


async def test_one_that_is_given_up_before_it_is_ready_is_killed(start: Start) -> None:
    process = start("import signal; signal.pause()")
    waiting = asyncio.ensure_future(process.ready())
    await eventually(lambda: state_of(process.pid) == "S", "it pauses")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (waiting.cancelled(), process.process.returncode) == (True, -signal.SIGKILL)


def test_a_frozen_one_stands_still_until_it_is_woken_and_can_be_stopped_as_it_is(start: Start) -> None:
    process = start(TALKING)
    assert process.url
    process.freeze()
    until(lambda: state_of(process.pid) == FROZEN, "it stands still")
    process.say("word")
    assert process.lines == ["shop is ready at http://127.0.0.1:1"]
    process.wake()
    assert process.line_with("word").result(WAIT_S) == "word"
    process.freeze()
    assert process.stop() == 3


def test_one_that_does_not_stop_in_time_is_killed(start: Start) -> None:
    process = start(STUBBORN)
    assert process.url
    assert process.stop(timeout_s=0.1) == -signal.SIGKILL


def test_processes_under_it_are_found_by_words_of_their_command(start: Start) -> None:
    process = start(
        f"import subprocess\nsubprocess.Popen(['sleep', '61'])\nsubprocess.Popen(['sleep', '62'])\n{TALKING}"
    )
    assert process.url
    both = until(lambda: len(process.below("sleep")) == 2 and process.below(), "both sleep")
    (first,) = process.below("sleep", "61")
    assert set(both) > {first}
    for pid in both:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(started_at, both)), "both are gone")


def test_the_variables_of_up_are_read_as_a_shell_would(start: Start) -> None:
    process = start(f"{SERVING}print('export SHOP_HOME=\\'/a b\\'')\nprint('export SHOP_PORT=1=2')")
    process.line_with("SHOP_PORT").result(WAIT_S)
    assert process.exported == {"SHOP_HOME": "/a b", "SHOP_PORT": "1=2"}
