"""The program that pays: `python -m headrace_scheduler.demo.till LEDGER SALE AMOUNT SECONDS`.

A job of the type `command` runs it. It knows nothing of the scheduler but the two variables that fence it.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from headrace.services import Sources, read, setting
from headrace_scheduler.demo.ledger import FencedRun, PaymentAnswer, PaymentLedger


@dataclass(frozen=True, slots=True)
class TillSettings:
    """What the worker tells every command."""

    token: int = setting(0, "the token of this run", low=1)
    resource: str = setting("", "what the token belongs to")


def main(path: str, sale: str, amount: str, seconds: str) -> int:
    settings = read(TillSettings, Sources("FENCING_", os.environ))
    run = FencedRun(settings.resource, settings.token, os.getpid())
    ledger = PaymentLedger(Path(path))
    try:
        if not ledger.begin(run):
            return 1
        # The bank takes its time, and meanwhile anything can happen to the worker.
        time.sleep(float(seconds))
        answer = ledger.pay(run, sale, int(amount))
    finally:
        ledger.close()
    print(f"{sale}: {answer}")
    return 1 if answer is PaymentAnswer.REFUSED else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
