"""A function of an installed package, named by an entry point of the group `headrace.scheduler.handlers`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextvars import copy_context
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from headrace import Dead
from headrace.sources import RealThreads
from headrace_scheduler.handlers.payload_fields import mapping_of, refuse_others, text_of
from headrace_scheduler.handlers.running_job import RunningJob

GROUP = "headrace.scheduler.handlers"


class PythonCall:
    """`{"type": "python", "name": "…", "arguments": {…}}`: `function(job, **arguments)`.

    A coroutine function is cancelled like any other handler. A plain one runs in a thread of its own, which nothing can
    stop: what it does after its lock was lost must be refused by the token, where its effect is. Until it ends the job
    keeps its place in the worker, and too many of them end the worker.
    """

    def __init__(self) -> None:
        self._known: dict[str, Callable[..., Any]] = {}
        self._threads = RealThreads()

    def check(self, payload: Mapping[str, Any]) -> None:
        text_of(payload, "name")
        mapping_of(payload, "arguments")
        refuse_others(payload, ("name", "arguments"))

    def missing(self, payload: Mapping[str, Any]) -> str:
        """Why no worker with the packages of this process could run it; empty: one could."""
        name = text_of(payload, "name")
        return "" if _found(name) else _missing(name)

    async def run(self, job: RunningJob) -> object:
        function = self._function(text_of(job.payload, "name"))
        arguments = mapping_of(job.payload, "arguments")
        if inspect.iscoroutinefunction(function):
            return await function(job, **arguments)
        answer = await self._beside(partial(function, job, **arguments))
        if inspect.isgenerator(answer) or inspect.isasyncgen(answer):
            raise Dead(f"{job.payload['name']} is a generator: it was called, and nothing of it has run", "generator")
        # A plain function may return what a coroutine function made: what nobody awaits has not run.
        return await answer if inspect.isawaitable(answer) else answer

    async def _beside(self, call: Callable[[], Any]) -> Any:
        running = asyncio.wrap_future(self._threads.run(partial(copy_context().run, call)))
        try:
            return await asyncio.shield(running)
        except BaseException as stopped:  # a cancellation, or the end of the hold; nothing may be awaited at a close
            if not running.done() and not isinstance(stopped, GeneratorExit):
                await asyncio.wait([running])
            raise

    def _function(self, name: str) -> Callable[..., Any]:
        if name not in self._known:
            found = _found(name)
            if not found:
                raise Dead(_missing(name), "unknown_function")
            self._known[name] = found[0].load()
        return self._known[name]


def _found(name: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP, name=name))


def _missing(name: str) -> str:
    return f"no installed package has an entry point {name!r} of {GROUP}"
