"""A queue is a tenant's jobs of one priority, and it is known by its buckets.

The tables of the specification have no column for a tenant, and programs that know only them look into the buckets
from 0 to `WORKER_BUCKETS` - 1. So those belong to the default queue, and every other queue has two buckets of its own
far above them. The bucket of a row then says whose it is: nothing is written beside the row that could be lost.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from headrace.errors import InvalidPayload
from headrace_scheduler.jobs.buckets import bucket_of

DEFAULT_TENANT = "default"
BUCKET_FIRST = 1_000_000
"""Above every count of buckets that an installation may have."""
BUCKETS_EACH = 2
"""Few, because an idle queue costs a look at each; two, so that a busy tenant's rows lie on more than one partition."""
NUMBERS = 1 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,62}")


class JobPriority(StrEnum):
    """The most urgent first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


@dataclass(frozen=True, slots=True)
class QueueName:
    """Whose jobs, and how urgent."""

    tenant: str = DEFAULT_TENANT
    priority: JobPriority = JobPriority.NORMAL

    def number_first(self) -> int:
        """Where the search for this queue's number begins: the same in every process and every version."""
        digest = hashlib.blake2b(f"{self.tenant}/{self.priority}".encode(), digest_size=8).digest()
        return int.from_bytes(digest) % NUMBERS


DEFAULT_NAME = QueueName()


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """A queue and its number; None is the default queue, whose buckets are those of the installation."""

    name: QueueName
    number: int | None = None

    @property
    def own_buckets(self) -> range:
        """Beside those of the installation."""
        if self.number is None:
            return range(0)
        first = BUCKET_FIRST + self.number * BUCKETS_EACH
        return range(first, first + BUCKETS_EACH)

    def bucket(self, job_id: UUID, buckets: int) -> int:
        """Where a new job goes; `buckets` are those of the installation."""
        if self.number is None:
            return bucket_of(job_id, buckets)
        return self.own_buckets[bucket_of(job_id, BUCKETS_EACH)]


DEFAULT_QUEUE = TenantQueue(DEFAULT_NAME)


def number_of(bucket_id: int) -> int | None:
    """The number of the queue that a bucket belongs to; None: the default queue."""
    return None if bucket_id < BUCKET_FIRST else (bucket_id - BUCKET_FIRST) // BUCKETS_EACH


def bucket_beside(bucket_id: int, job_id: UUID, buckets: int) -> int:
    """A bucket for another job of the same queue."""
    return TenantQueue(DEFAULT_NAME, number_of(bucket_id)).bucket(job_id, buckets)


def checked_tenant(name: str) -> str:
    """Refuse what is no name of a tenant."""
    if not _NAME.fullmatch(name):
        hint = "1 to 63 of a-z, 0-9, - _ and ., beginning with a letter or a digit"
        raise InvalidPayload(f"{name[:100]!r} is no name of a tenant", hint)
    return name
