"""What an error means for its file: it waits, or it has ended.

    not whole, or not what was listed      waits for its next listing, which makes it due at once
    a server or sink that is away          waits for about as long as the outage has lasted
    bad, unknown, vanished, refused        ended, until somebody acts: another try would end alike
    anything else                          a failed attempt

Waiting spends no attempt.
"""

from __future__ import annotations

from headrace import Dead
from headrace.errors import HeadraceError, TooLarge
from headrace_pm.counters.dictionary import UnknownElement
from headrace_pm.ftp.errors import FileChanged, FileGone, FileIncomplete, FileUnreadable
from headrace_pm.ftp.names import NameRefused
from headrace_pm.kafka.records import RecordRefused
from headrace_pm.wire.file_errors import BadFile, IncompleteFile

# The scanner makes a file due as soon as it is listed with another stamp; this is for one that nobody lists any more.
NOT_WHOLE_S = 300.0
_ENDS: dict[type[HeadraceError], str] = {
    BadFile: "bad_file",
    FileUnreadable: "bad_file",
    UnknownElement: "unknown_ne",
    FileGone: "vanished",
    TooLarge: "too_large",
    RecordRefused: "refused_record",
    NameRefused: "bad_name",
}
"""By its rule a dead file is told from one whose attempts are spent."""


class FileWaits(Exception):
    """A file waits, by no fault of its own: why, and for how long."""

    def __init__(self, reason: str, pause_s: float) -> None:
        super().__init__(reason)
        self.reason, self.pause_s = reason, pause_s


def is_not_ready(error: BaseException) -> bool:
    """Whether its next listing will tell more."""
    return isinstance(error, FileIncomplete | IncompleteFile | FileChanged)


def end_of(error: HeadraceError) -> Dead | None:
    """The end that an error makes for its file; None if it makes none."""
    for kind, rule in _ENDS.items():
        if isinstance(error, kind):
            words = str(error)
            return Dead(f"vanished: {words}" if kind is FileGone else words, rule)
    return None
