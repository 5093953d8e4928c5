"""Counters of a file as columns: what stands there, before any dictionary was asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ObservedObjects:
    """What was observed: when (the end of the period, in ms since 1970), how long, where, and in which cell."""

    times: NDArray[np.int64]
    durations: NDArray[np.int32]
    cells: NDArray[np.int64]
    locations: list[bytes]

    def followed_by(self, others: ObservedObjects) -> ObservedObjects:
        return ObservedObjects(
            np.concatenate((self.times, others.times)),
            np.concatenate((self.durations, others.durations)),
            np.concatenate((self.cells, others.cells)),
            self.locations + others.locations,
        )

    def since(self, first: int) -> ObservedObjects:
        return ObservedObjects(self.times[first:], self.durations[first:], self.cells[first:], self.locations[first:])


@dataclass(frozen=True, slots=True)
class CounterBlock:
    """Counters in the order of the file. `object_of` says for each which of the objects it belongs to, and never
    falls."""

    ids: NDArray[np.int32]
    values: NDArray[np.float64]
    object_of: NDArray[np.int32]
    objects: ObservedObjects

    def __len__(self) -> int:
        return len(self.ids)

    def followed_by(self, other: CounterBlock) -> CounterBlock:
        shift = np.int32(len(self.objects.locations))
        return CounterBlock(
            np.concatenate((self.ids, other.ids)),
            np.concatenate((self.values, other.values)),
            np.concatenate((self.object_of, other.object_of + shift)),
            self.objects.followed_by(other.objects),
        )

    def until(self, count: int) -> CounterBlock:
        return CounterBlock(self.ids[:count], self.values[:count], self.object_of[:count], self.objects)

    def since(self, count: int) -> CounterBlock:
        first = int(self.object_of[count])
        return CounterBlock(
            self.ids[count:], self.values[count:], self.object_of[count:] - np.int32(first), self.objects.since(first)
        )
