"""Jobs that need nothing: do nothing, wait, fail."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headrace_scheduler.handlers.payload_fields import number_of, refuse_others
from headrace_scheduler.handlers.running_job import RunFailed, RunningJob

SLEEP_S_MAX = 86_400.0


class NoOperation:
    """`{}`: completes at once, whatever else the payload holds."""

    def check(self, payload: Mapping[str, Any]) -> None:
        """Anything will do."""

    async def run(self, job: RunningJob) -> object:
        return None


class Sleep:
    """`{"type": "sleep", "seconds": 1.5}`."""

    def check(self, payload: Mapping[str, Any]) -> None:
        number_of(payload, "seconds", SLEEP_S_MAX)
        refuse_others(payload, ("seconds",))

    async def run(self, job: RunningJob) -> object:
        await asyncio.sleep(number_of(job.payload, "seconds", SLEEP_S_MAX))
        return None


class Fail:
    """`{"type": "fail", "message": "…"}`: every run fails."""

    def check(self, payload: Mapping[str, Any]) -> None:
        refuse_others(payload, ("message",))

    async def run(self, job: RunningJob) -> object:
        raise RunFailed(str(job.payload.get("message") or "this job fails"))
