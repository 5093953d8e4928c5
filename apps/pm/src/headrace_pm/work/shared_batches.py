"""The batches of one file for several sinks, decoded once for as long as they keep pace.

The last batches are kept, and so is the place at which decoding goes on: whoever comes there first decodes, the other
finds it kept. A sink that fell behind what is kept, or begins elsewhere, has a place of its own until the ways meet
again. So memory does not depend on how far the sinks are apart.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator

from headrace_pm.counters.batch import CounterBatch, batches
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile

# A table takes ten batches at a time and a topic has ten on their way: neither is to lose the other by that.
KEPT_MAX = 24
PLACES_MAX = 2


class SharedBatches:
    """Of an open file, which it closes. Calling it gives the batches from a number on, in any thread."""

    def __init__(self, source: FileBytes, file: CounterFile, dictionary: NetworkDictionary, size: int) -> None:
        self._source, self._file, self._dictionary, self._size = source, file, dictionary, size
        self._lock = threading.Lock()
        self._kept: dict[int, CounterBatch] = {}
        self._places: OrderedDict[int, Iterator[CounterBatch]] = OrderedDict()
        self._count = file.batch_count(size)
        self._is_closed = False
        self.decoded = 0

    def __call__(self, since: int) -> Iterator[CounterBatch]:
        for number in range(since, self._count):
            yield self._batch(number)

    def close(self) -> None:
        """Waits for whoever decodes: nobody reads from a file that is closed."""
        with self._lock:
            self._is_closed = True
            self._kept.clear()
            self._places.clear()
            self._source.close()

    def _batch(self, number: int) -> CounterBatch:
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the file is closed")
            found = self._kept.get(number)
            return self._decoded(number) if found is None else found

    def _decoded(self, number: int) -> CounterBatch:
        place = self._places.pop(number, None)
        if place is None:
            place = batches(self._file, self._dictionary, self._size, number)
        batch = next(place)
        self.decoded += 1
        self._places[number + 1] = place
        self._kept[number] = batch
        if len(self._kept) > KEPT_MAX:
            # The lowest one, also if it is this: who is behind must not drive out what he comes to next.
            del self._kept[min(self._kept)]
        while len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)
        return batch
