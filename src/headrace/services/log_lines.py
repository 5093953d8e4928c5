"""Log lines of a program: one event with its fields, on stderr. Data is on stdout, talk on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

from headrace.runtime.observe import below

Renderer = Callable[[WrappedLogger, str, EventDict], str]


class _Talk:
    """Standard error as it is at the moment: a test or a bar may have put another in its place. A line that cannot be
    written (its reader has gone, its disk is full) is lost, and the work goes on."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


def log_to_stderr(level: int = logging.INFO) -> None:
    """Lines from this level on; in colours where a person looks, else as `key=value`. Tracebacks stand below theirs."""
    coloured = structlog.dev.ConsoleRenderer(colors=True)
    plain = structlog.processors.LogfmtRenderer(key_order=("timestamp", "level", "event"))
    line: Renderer = coloured if sys.stderr.isatty() else plain

    def render(logger: WrappedLogger, name: str, event: EventDict) -> str:
        trail = event.pop("traceback", "")
        return below(line(logger, name, event), trail)

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper("iso"),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Talk())),
    )
