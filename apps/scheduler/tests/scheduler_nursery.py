"""A process that has everything imported, and forks one child for each call that it reads: starting takes no time.

One line of JSON on stdin is a list of calls, `[function of scheduler_mortal, argument, …]`; the line that answers it
has their exit codes, negative for a signal.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from typing import Any

import scheduler_mortal

AT_A_TIME = 4
# Loaded when they are first used, and then by every child anew.
LAZY = (
    "cassandra.io.libevreactor",
    "headrace.adapters.cassandra.tables",
    "headrace.adapters.sqlite.store",
    "headrace.runtime.engine",
    "headrace.tables.request_keys",
    "headrace.wiring",
    "prometheus_client",
)


def codes(calls: list[list[Any]]) -> list[int]:
    found, running, waiting = [0] * len(calls), dict[int, int](), list(enumerate(calls))
    while waiting or running:
        while waiting and len(running) < AT_A_TIME:
            number, call = waiting.pop(0)
            running[_born(call)] = number
        pid, status = os.wait()
        found[running.pop(pid)] = os.waitstatus_to_exitcode(status)
    return found


def _born(call: list[Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(180)
        getattr(scheduler_mortal, call[0])(*call[1:])
        code = 0
    except BaseException:  # whatever ends it, it must not go on as a second nursery
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    for name in LAZY:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(codes(json.loads(line))), flush=True)
