"""Handlers by the `type` of a payload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace import Dead
from headrace.errors import InvalidPayload
from headrace.sources import SourceContext
from headrace_scheduler.handlers.allow_lists import AllowListed
from headrace_scheduler.handlers.command import Command
from headrace_scheduler.handlers.http_call import HttpCall
from headrace_scheduler.handlers.python_call import PythonCall
from headrace_scheduler.handlers.running_job import JobHandler, RunningJob
from headrace_scheduler.handlers.simple import Fail, NoOperation, Sleep
from headrace_scheduler.jobs.texts import is_type
from headrace_scheduler.jobs.values import RESOURCE
from headrace_scheduler.settings import SchedulerSettings

NO_TYPE = ""
RESULT_BYTES_MAX = 1_048_576
"""As much as a payload may have; the server refuses rows of 16 MB."""


class HandlerRegistry:
    """Knows what each type does; it is itself the handler of the worker. `runs`: what is admitted here is run by the
    worker of this process, so its lists decide, also empty ones."""

    def __init__(self, handlers: Mapping[str, JobHandler], runs: bool = False) -> None:
        self._handlers, self._runs = dict(handlers), runs

    def check(self, payload: Mapping[str, Any]) -> None:
        """`InvalidPayload` for a type that nobody handles, or fields that its handler refuses."""
        self._of(payload).check(payload)

    def admit(self, payload: Mapping[str, Any]) -> None:
        """The same for a job that is to be made, and `InvalidPayload` if a list does not allow what it does, or if it
        calls a function that is not installed here. A process without a worker does not know the workers' lists and
        packages: it goes by its own lists, where it has one."""
        handler = self._of(payload)
        handler.check(payload)
        if self._runs and isinstance(handler, PythonCall) and (missing := handler.missing(payload)):
            raise InvalidPayload(missing, "install the package that has it where the worker runs, and start it again")
        if not isinstance(handler, AllowListed) or not (self._runs or handler.allowed):
            return
        if refusal := handler.refusal(payload):
            raise InvalidPayload(refusal, f"write a prefix of it into {handler.setting}, for all services")

    async def __call__(self, text: str | None, context: SourceContext) -> None:
        """Run a payload as its row holds it. What can never be run is dead at once."""
        try:
            payload = payload_of(text)
            self.check(payload)
        except InvalidPayload as error:
            raise Dead(str(error), "invalid_payload") from None
        handler = self._of(payload)
        resource = f"{RESOURCE}{context.key}"
        job = RunningJob(context.key, payload, resource, context.fence, context.attempt, context.report)
        context.result = kept(await handler.run(job))

    def _of(self, payload: Mapping[str, Any]) -> JobHandler:
        kind = payload.get("type", NO_TYPE)
        if not isinstance(kind, str) or kind not in self._handlers:
            known = ", ".join(name for name in self._handlers if name)
            shown = f" {kind!r}" if is_type(kind) else ""
            raise InvalidPayload(f"payload.type{shown} is known to no handler", f"one of {known}")
        return self._handlers[kind]


def builtin_handlers(settings: SchedulerSettings) -> dict[str, JobHandler]:
    """Those of the scheduler itself."""
    return {
        NO_TYPE: NoOperation(),
        "sleep": Sleep(),
        "http": HttpCall(settings.http_allow),
        "command": Command(settings.command_allow, settings.environment),
        "python": PythonCall(),
        "fail": Fail(),
    }


def kept(result: object) -> object:
    """A result that can be written down. One that cannot would let its job run again and again, with all of its
    effects; another attempt would return no better one."""
    try:
        size = len(json.dumps(result, ensure_ascii=False, default=str).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Dead(f"the run has ended, and its result cannot be written as JSON: {error}", "invalid_result") from None
    if size > RESULT_BYTES_MAX:
        raise Dead(f"the run has ended, and its result has {size:,} bytes, over {RESULT_BYTES_MAX:,}", "invalid_result")
    return result


def payload_of(text: str | None) -> dict[str, Any]:
    """The payload of a row; one that another program left empty is `{}`."""
    if not text:
        return {}
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidPayload("the payload is not JSON, or nested too deep") from None
    if not isinstance(payload, dict):
        raise InvalidPayload("the payload is not a JSON object")
    return payload
