"""What can be wrong with a file: it is not whole yet, which passes, or it is bad, which does not."""

from __future__ import annotations

from headrace.errors import CallerError, TryAgain


class BadFile(CallerError):
    """The file can never be read; the message says why. Nothing of it was given to anybody."""


class IncompleteFile(TryAgain):
    """The file is shorter than it says: its upload goes on, or broke off. At least `missing` bytes are to come."""

    def __init__(self, missing: int) -> None:
        super().__init__(f"the file is not whole: at least {missing:,} bytes are missing")
        self.missing = missing
