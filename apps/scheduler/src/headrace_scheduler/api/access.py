"""Whose keys are taken, how often, and the audit of what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headrace import http
from headrace_scheduler.settings import SchedulerSettings
from headrace_scheduler.tables.audit_events import AuditEvent, AuditEvents
from headrace_scheduler.tenants.tenant_queue import DEFAULT_TENANT, checked_tenant


def access_of(settings: SchedulerSettings, audit: AuditEvents, now: Callable[[], datetime]) -> http.Access:
    """Without keys nothing is limited and nothing is audited."""
    if not settings.api_key and not settings.api_keys:
        return http.Access(by_tenant=True)

    async def write(request: http.AuditedRequest) -> None:
        detail = f"status={request.status}" + (f" left_out={request.left_out}" if request.left_out else "")
        # What was made is told by its own name, and belongs to a tenant also if the key does not.
        subject = request.location or request.path
        tenant = request.tenant or (DEFAULT_TENANT if request.location else "")
        event = AuditEvent(now(), request.actor, f"{request.method} {request.route}", subject, detail, tenant)
        await audit.add(event)

    rates = settings.tenants.rates
    access = http.Access(by_tenant=True, tenant_rates=rates, rate_per_s=settings.rate_per_s, audit=write)
    found = http.access_of(settings.api_keys, access)
    for tenant in found.tenants.values():
        checked_tenant(tenant)
    return found
