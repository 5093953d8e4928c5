"""What is wrong with a picture or a video that came from outside."""

from __future__ import annotations

from headrace.errors import CallerError


class BadAsset(CallerError):
    """An asset that cannot be used, and why: the same bytes are as bad at the next try."""

    @property
    def reason(self) -> str:
        return str(self)
