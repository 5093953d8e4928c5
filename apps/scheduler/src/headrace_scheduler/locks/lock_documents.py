"""Locks as JSON."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.ports import Lease
from headrace_scheduler.jobs.texts import time_text


def lease_document(lease: Lease, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> dict[str, Any]:
    """A lock as it is; where the store keeps no date, its end is counted from now."""
    ends = lease.expire_at or now() + timedelta(seconds=lease.left_s)
    return {
        "resource": lease.name,
        "holder": lease.holder,
        "token": lease.fence,
        "expire_at": time_text(ends),
        "epoch": lease.epoch,
        "expired": lease.free,
    }
