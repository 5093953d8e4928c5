"""A digest of rows that does not depend on their order, and that a database can compute over what it holds.

Each row is mixed to 64 bits by the finalizer of MurmurHash3 (`intHash64` of ClickHouse), texts by their CRC-32, and a
batch or a file is the sum of its rows modulo 2⁶⁴. So sums of batches add up to that of the file, a row that is missing,
doubled or changed shows, and one pass over columns is enough. It guards against faults, not against forgers.
`clickhouse/sql/seen.sql` has the same formula.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from headrace_pm.counters.batch import CounterBatch

DIGEST_MODULUS = 1 << 64
_FIRST, _SECOND, _SHIFT = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)
_HIGH = np.uint64(32)
# ClickHouse begins with this, so that 0 does not become 0.
_START = np.uint64(0x4CF2D2BAAE6DA887)
# What stands for NULL: the bits of the NaN that every platform makes.
_NULL = np.uint64(0x7FF8000000000000)

Words = NDArray[np.uint64]


def batch_digest(batch: CounterBatch) -> int:
    """The digest of the rows of a batch."""
    objects = batch.objects
    mixed = _mix(objects.obj_hash ^ np.uint64(batch.ne_id & (DIGEST_MODULUS - 1)))
    for column in (objects.record_time, objects.duration, objects.cell_index):
        mixed = _mix(mixed ^ _words(column))
    mixed = _mix(mixed ^ (_checksums(objects.extra_field) << _HIGH | _checksums(map(str.encode, objects.rat_type))))
    groups = _checksums(map(str.encode, batch.groups))
    counters = _words(batch.counter_id) << _HIGH | groups[batch.group_of]
    values = np.where(np.isnan(batch.counter_value), _NULL, batch.counter_value.view(np.uint64))
    rows = _mix(_mix(mixed[batch.object_of] ^ counters) ^ values)
    return int(rows.sum(dtype=np.uint64))


def _mix(words: Words) -> Words:
    words = words ^ _START
    words = (words ^ (words >> _SHIFT)) * _FIRST
    words = (words ^ (words >> _SHIFT)) * _SECOND
    mixed: Words = words ^ (words >> _SHIFT)
    return mixed


def _words(column: NDArray[np.int32] | NDArray[np.int64]) -> Words:
    """Negative numbers as their two's complement in 64 bits."""
    return column.astype(np.int64).view(np.uint64)


def _checksums(texts: Iterable[bytes]) -> Words:
    return np.array([crc32(text) for text in texts], np.uint64)
