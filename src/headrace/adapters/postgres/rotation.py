"""A handle's own place in the rotation over tenants and their jobs, one per queue, kept in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field

TENANTS_REMEMBERED_MAX = 1_000
TENANTS_SENT_MAX = 64


@dataclass(slots=True)
class Turn:
    """How many claims were served, whose the last was, and each tenant's last job."""

    served: int = 0
    tenant: str = ""
    jobs: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def serve(self, tenant: str, job: str) -> None:
        self.served += 1
        self.tenant = tenant
        self.jobs[tenant] = job
        self.jobs.move_to_end(tenant)
        if len(self.jobs) > TENANTS_REMEMBERED_MAX:
            self.jobs.popitem(last=False)

    def told(self) -> dict[str, object]:
        """What a claim needs to know: of the jobs, only those of the tenants whose turn comes next."""
        jobs: dict[str, str] = self.jobs
        if len(jobs) > TENANTS_SENT_MAX:
            ordered = sorted(jobs)
            start = bisect_right(ordered, self.tenant)
            jobs = {tenant: jobs[tenant] for tenant in (ordered[start:] + ordered[:start])[:TENANTS_SENT_MAX]}
        return {"served": self.served, "tenant": self.tenant, "jobs": jobs}
