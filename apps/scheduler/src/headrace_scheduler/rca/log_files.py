"""Log lines out of files, as the services write them: `timestamp=… level=… event=… key=value`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from headrace.errors import CallerError
from headrace_scheduler.rca.evidence import LogEvent

LINES_MAX = 500_000
# Fields that rules and people need. Others may quote what was sent, and are left where they are.
KEPT = frozenset({"call", "check", "correlation_id", "error", "error_class", "job", "reason", "resource", "state"})
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')
_WORD = re.compile(r"[\w.:-]{1,200}")


def read_log(path: Path, since: datetime, until: datetime) -> Iterator[LogEvent]:
    """The events of a file within the time; what is no event (a traceback, another program's line) is passed over."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for number, line in enumerate(lines):
                if number >= LINES_MAX:
                    raise CallerError(f"{path} has more than {LINES_MAX:,} lines", "cut the time out of it first")
                event = log_event(line)
                if event is not None and since <= event.at < until:
                    yield event
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}", "name a file that a service logs to") from None


def log_event(line: str) -> LogEvent | None:
    """A line as an event; None if it is none."""
    if not line.startswith("timestamp="):
        return None
    fields = {name: value.strip('"') for name, value in _FIELD.findall(line)}
    try:
        at = datetime.fromisoformat(fields["timestamp"])
    except ValueError:
        return None
    # A value of several words is a text, and a text may say anything.
    kept = {name: value for name, value in fields.items() if name in KEPT and _WORD.fullmatch(value)}
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return LogEvent(at, fields.get("level", "info"), fields.get("event", ""), kept)
