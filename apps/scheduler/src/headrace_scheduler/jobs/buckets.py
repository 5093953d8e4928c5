"""Which bucket a new job goes into: a hash of its id that is the same in every process and every version."""

from __future__ import annotations

import hashlib
from uuid import UUID


def bucket_of(job_id: UUID, buckets: int) -> int:
    """Python's own `hash` differs between processes, so a digest is taken."""
    return int.from_bytes(hashlib.blake2b(job_id.bytes, digest_size=8).digest()) % buckets
