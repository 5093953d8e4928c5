"""One worker process: `python -m headrace.cli.child app:flow …`, started by the supervisor.

It imports what it runs and no more: neither the command tree nor its renderers. SIGTERM drains, a second one or SIGINT
stops now. The store's URL comes by the environment, because arguments can be read by everybody on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence

from headrace.cli.failures import code_of, tell
from headrace.cli.flows import load_flows
from headrace.core.errors import RESTORE, StoreReplaced
from headrace.core.redaction import redacted
from headrace.runtime.flow import Flow
from headrace.runtime.programs import REPORT_S, STORE_VARIABLE, die_with_parent, tell_ready
from headrace.runtime.seams import Seams
from headrace.runtime.supervisor import MADE_VARIABLE
from headrace.runtime.worker import Worker
from headrace.runtime.yard import WorkerOptions
from headrace.services.log_lines import log_to_stderr
from headrace.wiring import missing, open_store

# What a program does at its exit, such as sending the last lines to a collector, takes less.
END_S = 5.0


def main(arguments: Sequence[str]) -> int:
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m headrace.cli.child")
    parser.add_argument("flows", nargs="+")
    parser.add_argument("--hold-s", type=float, required=True)
    parser.add_argument("--debug", action="store_true")
    options = parser.parse_args(arguments)
    # Ordinary events are told only to those who ask.
    log_to_stderr(logging.DEBUG if options.debug else logging.WARNING)
    try:
        flows = load_flows(options.flows)
        asyncio.run(_work(flows, os.environ[STORE_VARIABLE], options.hold_s))
    except (Exception, KeyboardInterrupt) as error:
        return tell(error, as_json=False, debug=options.debug)
    return 0


async def _work(flows: Sequence[Flow], url: str, hold_s: float) -> None:
    try:
        await _serve(flows, url, hold_s)
    finally:
        _end_within(END_S, sys.exception())


def _end_within(seconds: float, error: BaseException | None) -> None:
    """The loop now waits for tasks that may swallow their cancellation, and the interpreter for threads that may hang.
    Whoever does so must not keep the process, and what ended it, to itself."""

    def end() -> None:
        if error is not None:
            tell(error, as_json=False, debug=False)
        os._exit(0 if error is None else code_of(error))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


async def _serve(flows: Sequence[Flow], url: str, hold_s: float) -> None:
    if MADE_VARIABLE in os.environ and missing(url):
        raise StoreReplaced(f"{redacted(url)} was deleted under the workers that have it open", RESTORE)
    store = await open_store(url)
    try:
        seams = Seams()
        worker = Worker(store, flows, seams, WorkerOptions(hold_s=hold_s))
        loop = asyncio.get_running_loop()
        asked: list[int] = []

        def term() -> None:
            asked.append(signal.SIGTERM)
            (worker.drain if len(asked) == 1 else worker.stop_now)()

        loop.add_signal_handler(signal.SIGTERM, term)
        loop.add_signal_handler(signal.SIGINT, worker.stop_now)
        report = tell_ready()
        report(0.0, worker.handling_s_max)
        reports = seams.threads.beat(REPORT_S, lambda: report(worker.still_s(), worker.handling_s_max))
        try:
            await worker.run()
        finally:
            reports.stop()
    finally:
        await store.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
