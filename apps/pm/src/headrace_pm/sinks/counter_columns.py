"""Batches as columns of `pm_counter_data`, in the order of its primary key.

In that order the server fills its pages one after the other, and two writers that meet the same rows meet them in the
same order. Rows with the same key stay as the file has them, so that the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.tables import Coded, Columns
from headrace_pm.counters.batch import CounterBatch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def counter_columns(batches: Sequence[CounterBatch], version: int, signed: bool = False) -> Columns:
    """The rows of some batches of one file, which were cut with one dictionary. `signed`: where there are no unsigned
    numbers the hash of an object has a sign, and the same bits."""
    first = np.cumsum([0, *(len(batch.objects) for batch in batches)]).tolist()
    places = [batch.object_of + np.int32(at) for batch, at in zip(batches, first[:-1], strict=True)]
    object_of = np.concatenate(places).astype(np.intp)
    ne_id = np.repeat(
        np.array([batch.ne_id for batch in batches], np.int32), np.array([len(batch) for batch in batches], np.intp)
    )
    counter_id, values = _joined(batches, "counter_id", np.int32), _joined(batches, "counter_value", np.float64)
    group_of = _joined(batches, "group_of", np.int32)
    times, durations, cells, hashes = (
        np.concatenate([getattr(batch.objects, name) for batch in batches]).astype(kind)
        for name, kind in (
            ("record_time", np.int64),
            ("duration", np.int32),
            ("cell_index", np.int64),
            ("obj_hash", np.uint64),
        )
    )
    rat_types = [each for batch in batches for each in batch.objects.rat_type]
    ranks = {name: rank for rank, name in enumerate(sorted(set(rat_types)))}
    rat_of = np.array([ranks[each] for each in rat_types], np.intp)
    order = np.lexsort(
        (hashes[object_of], rat_of[object_of], counter_id, durations[object_of], times[object_of], ne_id)
    )
    object_of, counter_values = object_of[order], values[order]
    moments, moment_of = np.unique(times, return_inverse=True)
    nulls = np.isnan(counter_values)
    object_hashes = hashes[object_of]
    columns: dict[str, Any] = {
        "ne_id": ne_id[order],
        "record_time": Coded(moment_of[object_of], [_moment(ms) for ms in moments.tolist()]),
        "duration": durations[object_of],
        "counter_id": counter_id[order],
        "counter_value": np.ma.masked_array(counter_values, nulls) if nulls.any() else counter_values,
        "cell_index": cells[object_of],
        "obj_hash": object_hashes.view(np.int64) if signed else object_hashes,
        "version": np.full(len(order), version, np.int64),
        "group_code": Coded(group_of[order], batches[0].groups),
        "rat_type": Coded(rat_of[object_of], tuple(ranks)),
        "extra_field": Coded(object_of, [each.decode() for batch in batches for each in batch.objects.extra_field]),
    }
    return Columns(columns)


def _joined(batches: Sequence[CounterBatch], name: str, kind: type[Any]) -> NDArray[Any]:
    return np.concatenate([getattr(batch, name) for batch in batches]).astype(kind)


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)
