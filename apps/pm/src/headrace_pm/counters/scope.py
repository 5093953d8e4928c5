"""Which counters are wanted, and to which group each of them belongs: a lookup of many ids at once.

Ids are ten digits long and lie far apart, so there is no table of them all. A search by halves takes 13 steps among
5,000 ids. Here an id is multiplied into one of four times as many slots as there are ids; a slot knows the first id
that came there, and whether another one came too. Only ids that meet such a slot, and are not the first, are searched.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_FACTOR = np.uint32(0x9E3779B1)
OUT_OF_SCOPE = -1


class CounterScope:
    """The groups of counters. An id is in scope if the dictionary has it at the level of counters."""

    def __init__(self, groups: Mapping[int, str]) -> None:
        self.groups: tuple[str, ...] = tuple(dict.fromkeys(groups.values()))
        numbers = {group: number for number, group in enumerate(self.groups)}
        # What is no Int32 stands in no file.
        ids = sorted(each for each in groups if -(1 << 31) <= each < 1 << 31)
        # One id more, so that there is one to compare with; its group is none.
        self._ids = np.array([*ids, -1], np.int32)
        self._numbers = np.array([*(numbers[groups[each]] for each in ids), OUT_OF_SCOPE], np.int32)
        self._sorted = self._ids[:-1]
        bits = max(4, (4 * len(ids)).bit_length())
        self._shift = np.uint32(32 - bits)
        slots = self._slots_of(self._sorted)
        self._first = np.full(1 << bits, len(ids), np.intp)
        # Written backwards, so that the first one stays.
        self._first[slots[::-1]] = np.arange(len(ids))[::-1]
        self._is_shared = np.bincount(slots, minlength=1 << bits) > 1

    def _slots_of(self, ids: NDArray[np.int32]) -> NDArray[np.uint32]:
        slots: NDArray[np.uint32] = (ids.view(np.uint32) * _FACTOR) >> self._shift
        return slots

    def __len__(self) -> int:
        return len(self._sorted)

    def groups_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """For each id the number of its group in `groups`; `OUT_OF_SCOPE` for those that nobody wants."""
        slots = self._slots_of(ids)
        found = self._first[slots]
        is_other = self._ids[found] != ids
        numbers: NDArray[np.int32] = self._numbers[found]
        if is_other.any():
            numbers[is_other] = OUT_OF_SCOPE
            rest = np.flatnonzero(is_other & self._is_shared[slots])
            if len(rest):
                wanted = ids[rest]
                places = np.searchsorted(self._sorted, wanted)
                places[places == len(self._sorted)] = 0
                numbers[rest] = np.where(self._sorted[places] == wanted, self._numbers[places], OUT_OF_SCOPE)
        return numbers
