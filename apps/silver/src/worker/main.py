"""python -m worker.main silver_consume [--drain | --follow]

Consumes one batch of `task_q` (or all of it, or for ever) in the PostgreSQL that PG_DSN names. BATCH_SIZE and
BACKLOG_THRESHOLD are read from the environment. Exit codes: 0 done, nothing to do, or another worker is at it;
1 a batch was rolled back; 2 the command or a variable is wrong; 5 there is no database.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from headrace.errors import CallerError, HeadraceError
from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer
from headrace_silver.stores.silver_store import StoreSettings, open_store

COMMAND = "silver_consume"
MODES = {(): Mode.ONE, ("--drain",): Mode.DRAIN, ("--follow",): Mode.FOLLOW}


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command; the answer is the exit code."""
    if "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return 0
    try:
        return _consume(_mode(arguments), environment)
    except HeadraceError as error:
        print(f"worker: {error}", file=sys.stderr)
        if error.hint:
            print(f"  → {error.hint}", file=sys.stderr)
        if isinstance(error, CallerError):
            return 2
        return 5 if error.heals else 1


def _mode(arguments: Sequence[str]) -> Mode:
    if not arguments or arguments[0] != COMMAND:
        given = arguments[0] if arguments else "nothing"
        raise CallerError(f"there is no command {given!r}", f"python -m worker.main {COMMAND} [--drain | --follow]")
    mode = MODES.get(tuple(arguments[1:]))
    if mode is None:
        given = " ".join(arguments[1:])
        raise CallerError(f"{COMMAND} does not understand {given!r}", f"{COMMAND} [--drain | --follow]")
    return mode


def _consume(mode: Mode, environment: Mapping[str, str]) -> int:
    settings = ConsumeSettings.read(environment)
    store = open_store(StoreSettings.read(environment).pg_dsn or None)
    try:
        consumed = TaskConsumer(store, settings, mode).run()
    finally:
        store.close()
    return 1 if consumed.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
