"""What a server tells of a file beside its name: size and moment of the last change.

The moment is compared with an earlier one of the same file on the same server and with nothing else, least of all with
our clock: LIST knows no year or no time of day and no zone. So it stays a text, and two of different kinds are not
compared at all: then the size decides, and in the end the hash of the content.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# u: MLSD, MLST, MDTM and SFTP know the second, in UTC. LIST knows the minute of a recent file (m), the day of an old
# one (d), or both in a zone of its own (i).
_DIGITS = re.compile(r"\d{14}")
_MINUTE = re.compile(r"m(\d{4})\d{4}")
_DAY = re.compile(r"d\d{4}(\d{4})")
_WRITTEN = re.compile(r"(\d+)((?:[ui]\d{14}|m\d{8}|d\d{8})?)")


class Stamp(NamedTuple):
    """Size and moment of one file. `modified` is empty if the server does not tell it.

    A tuple, because a look makes thousands of them, and it takes a third of the time of a frozen dataclass.
    """

    size: int
    modified: str = ""

    def agrees_with(self, other: Stamp) -> bool:
        """Whether both may be of the same content, as far as they can be compared."""
        return self.size == other.size and _agree(self.modified, other.modified)

    def __str__(self) -> str:
        return f"{self.size}{self.modified}"

    @classmethod
    def read(cls, text: str) -> Stamp:
        """The stamp that was written by `str`."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no stamp")
        return cls(int(found[1]), found[2])


def exact(digits: str, kind: str = "u") -> str:
    """The moment `YYYYMMDDHHMMSS[.fraction]` of MLSD, MLST and MDTM; empty if it is none."""
    return f"{kind}{digits[:14]}" if _DIGITS.match(digits) else ""


def _agree(one: str, other: str) -> bool:
    if one == other or one[:1] != other[:1]:
        # A recent file that grew old between two listings: of both forms the day is known.
        minute, day = _MINUTE.fullmatch(one) or _MINUTE.fullmatch(other), _DAY.fullmatch(one) or _DAY.fullmatch(other)
        return minute is None or day is None or minute[1] == day[1]
    return False
