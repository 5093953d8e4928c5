"""Log lines of a service: one event with its fields, on stderr."""

from __future__ import annotations

import logging
import sys
from typing import TextIO, cast

import structlog


class _Talk:
    """Standard error as it is at the moment: somebody may put another in its place."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def to_stderr() -> None:
    """Data is on stdout, talk on stderr; colours only where somebody looks."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper("iso"),
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Talk())),
    )


def quiet(level: int = logging.ERROR) -> None:
    """Only what is wrong, for those who look at something else."""
    to_stderr()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
