"""Batches of counters as every sink takes them: columns, and a row's object by its number.

Most of a row belongs to its object and is the same for a hundred counters: a sink makes that part once for each object
of the batch (a piece of JSON, of RowBinary, of the bulk protocol) and repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.counters.location import location_facts, object_hash, trimmed
from headrace_pm.wire.counter_block import ObservedObjects
from headrace_pm.wire.counter_file import BATCH_SIZE, BatchBlock, CounterFile


@dataclass(frozen=True, slots=True)
class BatchObjects:
    """The columns of `pm_counter_data` that belong to objects. `record_time` is in ms since 1970, `obj_hash` the number
    whose hexadecimal form is the hash, `extra_field` a JSON object as bytes."""

    record_time: NDArray[np.int64]
    duration: NDArray[np.int32]
    cell_index: NDArray[np.int64]
    obj_hash: NDArray[np.uint64]
    rat_type: tuple[str, ...]
    extra_field: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.record_time)

    def part(self, first: int, end: int) -> BatchObjects:
        part = slice(first, end)
        return BatchObjects(
            self.record_time[part],
            self.duration[part],
            self.cell_index[part],
            self.obj_hash[part],
            self.rat_type[part],
            self.extra_field[part],
        )


@dataclass(frozen=True, slots=True)
class CounterBatch:
    """One batch of a file. `number` is its place among the batches, `position` that of its first counter in the file,
    `read` how many counters it had before those out of scope were left out: they are counted, and have no row.

    A row is `counter_id[r]`, `counter_value[r]` (NaN is NULL), `groups[group_of[r]]` and all columns of object
    `object_of[r]`. Rows stand in the order of the file.
    """

    number: int
    position: int
    read: int
    ne_id: int
    counter_id: NDArray[np.int32]
    counter_value: NDArray[np.float64]
    group_of: NDArray[np.int32]
    groups: tuple[str, ...]
    object_of: NDArray[np.int32]
    objects: BatchObjects

    def __len__(self) -> int:
        return len(self.counter_id)

    @property
    def skipped(self) -> int:
        """How many counters were out of scope."""
        return self.read - len(self)


def batches(
    file: CounterFile, dictionary: NetworkDictionary, size: int = BATCH_SIZE, since: int = 0
) -> Iterator[CounterBatch]:
    """The batches of a file from number `since` on, the same ones whenever it is read with the same size. If one of its
    elements is unknown there is none at all."""
    ids = {unit: dictionary.ne_id(unit) for unit in file.units}
    for block in file.blocks(size, since):
        yield from _cut(block, dictionary, ids[block.unit], size)


def _cut(block: BatchBlock, dictionary: NetworkDictionary, ne_id: int, size: int) -> Iterator[CounterBatch]:
    counters, scope = block.counters, dictionary.scope
    objects = described(counters.objects, dictionary)
    values = np.where(np.isfinite(counters.values), counters.values, np.nan)
    group_of = scope.groups_of(counters.ids)
    kept = np.flatnonzero(group_of >= 0)
    ids, values = counters.ids[kept], values[kept]
    group_of, object_of = group_of[kept], counters.object_of[kept]
    begins = np.arange(0, len(counters), size)
    # Where in what is kept the batches begin and end.
    edges = np.searchsorted(kept, np.append(begins, len(counters))).tolist()
    firsts = counters.object_of[begins].tolist()
    for which, begin in enumerate(begins.tolist()):
        rows = slice(edges[which], edges[which + 1])
        read = min(size, len(counters) - begin)
        first, end = firsts[which], int(counters.object_of[begin + read - 1]) + 1
        yield CounterBatch(
            block.batch + which,
            block.position + begin,
            read,
            ne_id,
            ids[rows],
            values[rows],
            group_of[rows],
            scope.groups,
            object_of[rows] - np.int32(first),
            objects.part(first, end),
        )


def described(objects: ObservedObjects, dictionary: NetworkDictionary) -> BatchObjects:
    """What follows from the locations of objects, once for each of them."""
    locations = [trimmed(location) for location in objects.locations]
    hashes = map(object_hash, locations, objects.cells.tolist())
    facts = [location_facts(location) for location in locations]
    return BatchObjects(
        objects.times,
        objects.durations,
        objects.cells,
        np.fromiter(hashes, np.uint64, len(locations)),
        tuple([dictionary.rat_type(each.node_function) for each in facts]),
        tuple([each.extra_field for each in facts]),
    )
