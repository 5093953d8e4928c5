"""What each tenant may have, as an operator writes it: `acme:open=1000:in_progress=4,*:open=100`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import CallerError
from headrace_scheduler.tenants.tenant_queue import checked_tenant

EVERY_OTHER = "*"
FORM = "write acme:open=1000:in_progress=4,*:rate=50; the limits are open, in_progress, schedules and rate"


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Most jobs that wait, most that one worker holds at a time, most schedules, and most requests a second. None: as
    many as there are."""

    open: int | None = None
    in_progress: int | None = None
    schedules: int | None = None
    rate: float | None = None


UNBOUNDED = TenantLimits()


@dataclass(frozen=True, slots=True)
class TenantRules:
    """The limits of those that are named, and of every other."""

    named: Mapping[str, TenantLimits] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> TenantRules:
        named: dict[str, TenantLimits] = {}
        for part in filter(None, map(str.strip, text.split(","))):
            tenant, *limits = part.split(":")
            if tenant in named or not limits:
                raise CallerError(f"WORKER_TENANT_LIMITS: {part!r} is no limit, or its tenant is there twice", FORM)
            named[tenant if tenant == EVERY_OTHER else checked_tenant(tenant)] = _limits(limits)
        return cls(named)

    def limits(self, tenant: str) -> TenantLimits:
        return self.named.get(tenant, self.named.get(EVERY_OTHER, UNBOUNDED))

    @property
    def rates(self) -> Mapping[str, float]:
        """Requests a second, by tenant; 0: as many as there are."""
        return {tenant: limits.rate or 0.0 for tenant, limits in self.named.items()}


def _limits(words: list[str]) -> TenantLimits:
    numbers: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            numbers[name] = float(value) if name == "rate" else int(value)
        except ValueError:
            raise CallerError(f"WORKER_TENANT_LIMITS: {word!r} is no number", FORM) from None
    try:
        if min(numbers.values()) <= 0:
            raise CallerError("WORKER_TENANT_LIMITS: a limit is more than 0", FORM)
        return TenantLimits(**numbers)  # type: ignore[arg-type]
    except TypeError:
        raise CallerError(f"WORKER_TENANT_LIMITS: unknown limit among {', '.join(numbers)}", FORM) from None
