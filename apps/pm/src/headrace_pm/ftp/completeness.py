"""Whether a performance file is whole, by its own first bytes: they say how long it must be."""

from __future__ import annotations

from headrace_pm.ftp.gate import Completeness
from headrace_pm.wire.frame import Bad, Complete, Incomplete, Undecided, examine_head


def check_frame(head: bytes, size: int) -> Completeness:
    """What the frame of a file says. Of a packed one, and of several messages, only reading can tell."""
    match examine_head(head, size):
        case Complete():
            return Completeness.COMPLETE
        case Incomplete():
            return Completeness.INCOMPLETE
        case Bad():
            return Completeness.BAD
        case Undecided():
            return Completeness.UNDECIDED
