"""The columns of `pm_counter_data` in a Parquet file, and batches in that shape."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace_pm.counters.batch import CounterBatch

_TEXT = pa.dictionary(pa.int32(), pa.string())
# obj_hash is the number whose hexadecimal form is the hash, as in MySQL. Texts are repeated for a hundred counters.
SCHEMA = pa.schema(
    [
        pa.field("ne_id", pa.int32(), nullable=False),
        pa.field("record_time", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("duration", pa.int32(), nullable=False),
        pa.field("counter_id", pa.int32(), nullable=False),
        pa.field("counter_value", pa.float64()),
        pa.field("group_code", _TEXT, nullable=False),
        pa.field("rat_type", _TEXT, nullable=False),
        pa.field("cell_index", pa.int64(), nullable=False),
        pa.field("obj_hash", pa.uint64(), nullable=False),
        pa.field("extra_field", _TEXT, nullable=False),
        pa.field("version", pa.int64(), nullable=False),
    ]
)
KEY = ("ne_id", "record_time", "duration", "counter_id", "rat_type", "obj_hash")
"""The primary key of `pm_counter_data`."""


def record_batch(batch: CounterBatch, version: int) -> pa.RecordBatch:
    """A batch as Arrow has it; what belongs to objects is looked up by their number."""
    objects, of = batch.objects, batch.object_of
    columns = [
        pa.array(np.full(len(batch), batch.ne_id, np.int32)),
        pa.array(objects.record_time[of]).cast(pa.timestamp("ms", tz="UTC")),
        pa.array(objects.duration[of]),
        pa.array(batch.counter_id),
        pa.array(batch.counter_value, mask=np.isnan(batch.counter_value)),
        _coded(batch.group_of, batch.groups),
        _coded(of, objects.rat_type),
        pa.array(objects.cell_index[of]),
        pa.array(objects.obj_hash[of]),
        _coded(of, [each.decode() for each in objects.extra_field]),
        pa.array(np.full(len(batch), version, np.int64)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _coded(codes: NDArray[np.int32], texts: tuple[str, ...] | list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts, pa.string()))
