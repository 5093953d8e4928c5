"""Batches row by row, as the table has them and as the truth of the generator does."""

from __future__ import annotations

import json
import math
from typing import Any

from headrace_pm.counters.batch import CounterBatch


def rows(batch: CounterBatch) -> list[dict[str, Any]]:
    """The batch row by row, as the table has it."""
    objects = batch.objects
    return [
        {
            "ne_id": batch.ne_id,
            "record_time": int(objects.record_time[which]),
            "duration": int(objects.duration[which]),
            "counter_id": int(batch.counter_id[row]),
            "counter_value": None if math.isnan(batch.counter_value[row]) else float(batch.counter_value[row]),
            "group_code": batch.groups[batch.group_of[row]],
            "rat_type": objects.rat_type[which],
            "cell_index": int(objects.cell_index[which]),
            "obj_hash": f"{objects.obj_hash[which]:016x}",
            "extra_field": json.loads(objects.extra_field[which]),
        }
        for row, which in enumerate(batch.object_of.tolist())
    ]
