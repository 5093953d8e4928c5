"""Whose keys are taken, how often, and the audit of what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headrace import http
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.audit_events import AuditEvents

# A new job is its own record, and there may be thousands a second.
UNAUDITED = ("/jobs",)


def access_of(settings: SchedulerSettings, audit: AuditEvents, now: Callable[[], datetime]) -> http.Access:
    async def write(request: http.AuditedRequest) -> None:
        if request.route not in UNAUDITED:
            action = f"{request.method} {request.route}"
            await audit.add(now(), request.actor, action, request.path, f"status={request.status}")

    return http.access_of(settings.api_keys, http.Access(rate_per_s=settings.rate_per_s, audit=write))
