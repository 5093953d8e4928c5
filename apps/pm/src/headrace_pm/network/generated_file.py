"""One file of a generated network, with the rows it must become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256

import msgspec
import numpy as np

from headrace_pm.network.generated_network import (
    COUNTERS_PER_OBJECT,
    FIRST_PERIOD_MS,
    PERIOD_S,
    GeneratedNetwork,
    NetworkElement,
    NetworkObject,
)
from headrace_pm.network.message_writer import MessageWriter, Pads, WrittenObject
from headrace_pm.wire.counter_file import BATCH_SIZE
from headrace_pm.wire.packed import pack

# Of a thousand values so many are no numbers: an element that divided by nothing.
_NOT_FINITE_PER_THOUSAND = 2
# So large is the first segment of most writers; those of a large file grow, and stay below a hundred.
_SEGMENT_WORDS = 1_024


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Which file is meant: its number, its size in counters, and whether it is the first version of its content or a
    correction."""

    number: int
    counters: int
    is_packed: bool = False
    revision: int = 1


class GeneratedFile:
    """A file of one element and one period."""

    def __init__(self, network: GeneratedNetwork, element: NetworkElement, period: int, plan: FilePlan) -> None:
        self._network, self._plan = network, plan
        self.element = element
        self._time = FIRST_PERIOD_MS + 1_000 * PERIOD_S * period

    @property
    def name(self) -> str:
        moment = datetime.fromtimestamp(self._time / 1_000, UTC)
        return f"{self.element.name}_{moment:%Y%m%d%H%M}.dat"

    @cached_property
    def objects(self) -> list[tuple[NetworkObject, WrittenObject]]:
        plan = self._plan
        chance = np.random.default_rng([self._network.seed, 3, plan.number, plan.revision])
        counts = [COUNTERS_PER_OBJECT] * (plan.counters // COUNTERS_PER_OBJECT)
        counts += [plan.counters % COUNTERS_PER_OBJECT] * (plan.counters % COUNTERS_PER_OBJECT > 0)
        made = []
        for number, count in enumerate(counts):
            known = self._network.object(self.element, number)
            # A counter comes once per object, in no order: the same ones in every revision.
            order = np.random.default_rng([self._network.seed, 4, plan.number, number])
            ids = order.choice(self._network.counters, count, replace=False)
            values = np.round(chance.exponential(1_000.0, count), 3)
            odd = chance.integers(0, 1_000, count)
            values[odd < _NOT_FINITE_PER_THOUSAND] = np.nan
            values[odd == _NOT_FINITE_PER_THOUSAND] = np.inf
            made.append((known, WrittenObject(self._time, PERIOD_S, known.location, known.cell, ids, values)))
        return made

    def plain(self) -> bytes:
        """Every other file in many segments, as writers do that do not know beforehand how long it will be."""
        number = self._plan.number
        pads = Pads.DOUBLE if number % 4 == 3 else Pads.SINGLE
        words = max(_SEGMENT_WORDS, self._plan.counters // 16)
        writer = MessageWriter(words if number % 2 else 0, pads)
        return writer.write(self.element.name.encode(), [written for _, written in self.objects])

    def plain_in_one_segment(self) -> bytes:
        return MessageWriter().write(self.element.name.encode(), [written for _, written in self.objects])

    def content(self) -> bytes:
        return pack(self.plain()) if self._plan.is_packed else self.plain()

    @property
    def is_packed(self) -> bool:
        return self._plan.is_packed

    @property
    def counters(self) -> int:
        return self._plan.counters

    @property
    def rows(self) -> int:
        """How many of the counters are in scope."""
        wanted = np.fromiter(self._network.groups, np.int32)
        return sum(int(np.isin(written.ids, wanted).sum()) for _, written in self.objects)

    def truth(self) -> Iterator[bytes]:
        """The rows as lines of JSON, in the order of the file. Made from what was meant, not from what was written."""
        groups = self._network.groups
        position = 0
        for known, written in self.objects:
            digest = sha256(known.location.strip() + b"|" + str(known.cell).encode()).hexdigest()
            fixed = {
                "ne_id": self.element.id,
                "record_time": written.time,
                "duration": written.duration,
                "rat_type": known.rat_type,
                "cell_index": known.cell,
                "obj_hash": digest[:16],
                "extra_field": known.pairs,
                "file": self.name,
                "revision": self._plan.revision,
            }
            front = msgspec.json.encode(fixed)[:-1]
            finite = np.isfinite(written.values).tolist()
            for counter, value, is_finite in zip(written.ids.tolist(), written.values.tolist(), finite, strict=True):
                if counter in groups:
                    shown = repr(value) if is_finite else "null"
                    tail = f',"counter_id":{counter},"counter_value":{shown},"group_code":"{groups[counter]}"'
                    yield b'%b%b,"batch":%d}\n' % (front, tail.encode(), position // BATCH_SIZE)
                position += 1
