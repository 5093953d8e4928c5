"""The one place where the runtime logs and counts. One event is one line with fields; never a payload, and nothing
per item that went well."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import MutableMapping
from textwrap import indent
from typing import Any

import structlog

_ALARMING = frozenset({"item.dead", "message.dead"})
# Everything else is a warning: what nobody thought of when it was named must not be silent.
_ORDINARY = frozenset(
    {
        "claims.swept",
        "item.settled",
        "schedule.fired",
        "schedule.overlapped",
        "worker.ended",
        "worker.started",
    }
)


class Observer:
    """Counts events by name in `counts` and logs them with what belongs to them.

    A program that has configured structlog gets the events there. In any other they go to the standard logger
    `headrace`: an embedded worker does not print into its host's output.
    """

    __slots__ = ("_log", "counts")

    def __init__(self, worker: str) -> None:
        self.counts: Counter[str] = Counter()
        if structlog.is_configured():
            self._log = structlog.get_logger("headrace", worker=worker)
        else:
            self._log = structlog.wrap_logger(
                logging.getLogger("headrace"),
                processors=[structlog.stdlib.filter_by_level, _line],
                wrapper_class=structlog.stdlib.BoundLogger,
                worker=worker,
            )

    def event(self, name: str, **fields: Any) -> None:
        self.counts[name] += 1
        if name in _ALARMING:
            self._log.error(name, **fields)
        elif name in _ORDINARY:
            self._log.info(name, **fields)
        else:
            self._log.warning(name, **fields)

    def bound(self, **fields: Any) -> Any:
        """A logger for what a handler has to say, with these fields in each of its lines."""
        return self._log.bind(**fields)

    def count(self, name: str, by: int) -> None:
        """Count without a line: for what happens too often to be told."""
        self.counts[name] += by


def _line(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    name, trail = event.pop("event"), event.pop("traceback", "")
    return below(" ".join((str(name), *(f"{key}={value}" for key, value in event.items()))), trail)


def below(line: str, trail: str) -> str:
    """A line of the log with a traceback under it, for people: indented, so that every event still begins a line."""
    return f"{line}\n{indent(trail.rstrip(), '    ')}" if trail else line
