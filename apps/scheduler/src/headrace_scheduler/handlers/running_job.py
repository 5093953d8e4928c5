"""A job as its handler sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol


class RunFailed(Exception):
    """One run of a job did not come to a good end; another one may."""


Report = Callable[[Mapping[str, object]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RunningJob:
    """One run. `fencing_token` is higher than that of every run of this job before, and belongs into every effect that
    can refuse an older one; `resource` says whose token it is. `attempt` counts from 1. `report` tells people how far
    it is."""

    job_id: str
    payload: Mapping[str, Any]
    resource: str
    fencing_token: int
    attempt: int
    report: Report


class JobHandler(Protocol):
    """One type of job.

    It is cancelled when its time is over or the job's lock is lost, and must have stopped its effects when that
    returns. What it raises is a failed attempt, `headrace.Dead` the end of the job.
    """

    def check(self, payload: Mapping[str, Any]) -> None:
        """`InvalidPayload` if this cannot be run, whoever runs it."""

    async def run(self, job: RunningJob) -> object:
        """Do it. What is returned is the job's result, and must be JSON."""
