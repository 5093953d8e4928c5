"""The demo is the first thing anybody runs: it must survive its own kill, and stop when asked."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

Started = Callable[..., "subprocess.Popen[str]"]
Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_demo_finishes_exactly_once_in_spite_of_a_kill(headrace_process: Command) -> None:
    done = headrace_process("demo", "--headless", "--json", "--charges", "1000")
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout.splitlines()[-1])
    assert receipt["items"] == receipt["done"] == receipt["effects"] == 1_002
    assert (receipt["dead"], receipt["kills"], receipt["finish_lines"], receipt["findings"]) == (0, 1, 1, 0)
    assert receipt["takeovers"] >= 1
    assert receipt["seconds"] > 0


def test_an_interrupt_stops_the_demo(started: Started) -> None:
    demo = started("demo", "--headless", "--charges", "100000")
    assert demo.stderr is not None
    # The first line says that the workers are ready: from here on there is something to stop.
    assert "worker processes" in demo.stderr.readline()
    demo.send_signal(signal.SIGINT)
    assert demo.wait(3) == 130
    assert "headrace: interrupted" in demo.stderr.read()
