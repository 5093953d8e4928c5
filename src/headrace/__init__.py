"""Data pipelines and background jobs that finish exactly once.

    flow = headrace.Flow("digest")
    async with headrace.connect("sqlite:///jobs.db") as engine: ...

Names are loaded when they are first used, so that importing headrace costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.errors import CallerError as CallerError
    from headrace.core.errors import Conflict as Conflict
    from headrace.core.errors import HeadraceError as HeadraceError
    from headrace.core.errors import InvalidPayload as InvalidPayload
    from headrace.core.errors import NotFound as NotFound
    from headrace.core.errors import OperatorError as OperatorError
    from headrace.core.errors import TryAgain as TryAgain
    from headrace.core.jobs import JobView as JobView
    from headrace.core.outcomes import Dead as Dead
    from headrace.core.outcomes import Done as Done
    from headrace.core.outcomes import Retry as Retry
    from headrace.core.outcomes import Snooze as Snooze
    from headrace.core.retry import RetryPolicy as RetryPolicy
    from headrace.core.retry import backoff as backoff
    from headrace.core.tally import JobState as JobState
    from headrace.core.tally import Tally as Tally
    from headrace.runtime.context import Context as Context
    from headrace.runtime.context import Out as Out
    from headrace.runtime.engine import Engine as Engine
    from headrace.runtime.failed_attempts import FailedAttempt as FailedAttempt
    from headrace.runtime.flow import Flow as Flow
    from headrace.runtime.yard import WorkerOptions as WorkerOptions
    from headrace.wiring import bus as bus
    from headrace.wiring import connect as connect
    from headrace.wiring import leases as leases
    from headrace.wiring import sink as sink
    from headrace.wiring import submit_in as submit_in
    from headrace.wiring import submit_many_in as submit_many_in

__version__ = "0.1.0"

_HOMES = {
    "Flow": "headrace.runtime.flow",
    "Out": "headrace.runtime.context",
    "Context": "headrace.runtime.context",
    "Tally": "headrace.core.tally",
    "Done": "headrace.core.outcomes",
    "Retry": "headrace.core.outcomes",
    "Dead": "headrace.core.outcomes",
    "Snooze": "headrace.core.outcomes",
    "RetryPolicy": "headrace.core.retry",
    "backoff": "headrace.core.retry",
    "connect": "headrace.wiring",
    "sink": "headrace.wiring",
    "bus": "headrace.wiring",
    "leases": "headrace.wiring",
    "submit_in": "headrace.wiring",
    "submit_many_in": "headrace.wiring",
    "Engine": "headrace.runtime.engine",
    "WorkerOptions": "headrace.runtime.yard",
    "FailedAttempt": "headrace.runtime.failed_attempts",
    "JobState": "headrace.core.tally",
    "JobView": "headrace.core.jobs",
    "HeadraceError": "headrace.core.errors",
    "CallerError": "headrace.core.errors",
    "InvalidPayload": "headrace.core.errors",
    "NotFound": "headrace.core.errors",
    "Conflict": "headrace.core.errors",
    "OperatorError": "headrace.core.errors",
    "TryAgain": "headrace.core.errors",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
