"""A row of `locks` as a value: what is compared, what is written, and what a lease says of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.adapters.cassandra.session import CqlRows
from headrace.core.leases import Lease

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LockRow:
    """A foreign row may lack any column. Times are milliseconds, as Cassandra keeps them."""

    holder: str | None
    token: int | None
    expire_ms: int | None
    epoch: int | None

    @classmethod
    def of(cls, found: dict[str, Any], seen: LockRow | None = None) -> LockRow:
        """A row as it was read; a refused condition names only the columns that it compared."""
        end = found.get("expire_at")
        milliseconds = None if end is None else (end - _EPOCH) // _MILLISECOND
        epoch = found["epoch"] if "epoch" in found or seen is None else seen.epoch
        return cls(found["holder"], found["fencing_token"], milliseconds, epoch)

    def expired(self, now_s: float) -> bool:
        return self.expire_ms is None or self.expire_ms <= now_s * 1000

    def values(self, prefix: str = "") -> dict[str, Any]:
        named = {"holder": self.holder, "fencing_token": self.token, "expire_at": self.expire_ms, "epoch": self.epoch}
        return {prefix + name: value for name, value in named.items()}

    def lease(self, name: str, now_s: float) -> Lease:
        end = self.expire_ms or 0
        left_s = max(0.0, end / 1000 - now_s)
        return Lease(name, self.holder or "", self.token or 0, self.epoch or 0, left_s, _EPOCH + end * _MILLISECOND)


def row_of(answer: CqlRows, seen: LockRow | None = None) -> LockRow | None:
    """The row in an answer; None: there is none."""
    found = answer.first()
    return None if found is None or "holder" not in found else LockRow.of(found, seen)
