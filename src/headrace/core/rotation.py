"""Fair claims: a handle's own place in the rotation over tenants and their jobs, and how much one call may take.

Every handle rotates on its own: the next tenant after the last one served, then that tenant's next job. A store answers
"what is ready after this one" by an index; whose turn it is is decided here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

# Every eighth claim of a queue starts at the lowest priority, so that nothing starves behind a full one.
LOWEST_EVERY = 8
TENANTS_REMEMBERED_MAX = 1_000
# Suspects run one at a time: a slice of them is no longer than what a hold can bear.
ALONE_SLICE_MAX = 32
# Waiting items are counted in so many chunks per share: exact when few are left, enough when many are.
SHARE_CHUNKS = 8


@dataclass(slots=True)
class Turn:
    """The place in the rotation of one queue: claims served so far, whose the last one was, each tenant's last job."""

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

    @property
    def lowest(self) -> bool:
        """Whether the next claim starts at the lowest priority."""
        return self.served % LOWEST_EVERY == LOWEST_EVERY - 1

    def ahead(self, tenants_max: int) -> Mapping[str, str]:
        """The last jobs of the tenants whose turn comes next."""
        if len(self.jobs) <= tenants_max:
            return self.jobs
        ordered = sorted(self.jobs)
        start = bisect_right(ordered, self.tenant)
        return {tenant: self.jobs[tenant] for tenant in (ordered[start:] + ordered[:start])[:tenants_max]}


def shares(live: int) -> int:
    """Into how many parts what waits of one job is divided among so many live workers; one that is alone takes all."""
    return 1 if live <= 1 else 2 * live


def share(waiting: int, live: int) -> int:
    """How many items of one job a single call may take, so that the last ones spread over all workers."""
    return max(1, -(-waiting // shares(live)))
