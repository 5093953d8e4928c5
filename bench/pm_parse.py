"""How fast does a file of counters become columns?

Everybody reads the same file of 100 counters per object and the same values of it. `attributes` is the usual way: every
field of every counter by an attribute of pycapnp. `raw` gathers ids and values from places that are known beforehand,
out of a file that is in memory: no pointer is followed and nothing is checked. `headrace columns` is the reader, from
opening the file on; `headrace batches` joins it with the dictionaries too, for locations that were never seen before.
`unpack` is beside what pycapnp takes for the same packed message in memory. Processor time of the best round, since a
busy machine spoils every other.
"""

from __future__ import annotations

import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import capnp
import numpy as np

from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.counters.location import known_facts
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.wire import counter_file
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile
from headrace_pm.wire.packed import pack, unpack

SCHEMA = Path(counter_file.__file__).with_name("counter.capnp")


class ParseBench:
    """One file, plain and packed, and the ways to read it."""

    def __init__(self, counters: int) -> None:
        capnp.remove_import_hook()
        self._schema: Any = capnp.load(str(SCHEMA))
        self._home = tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd())
        self._counters = counters
        folder = GeneratedFolder(FolderPlan(files=2, counters=counters))
        self._dictionary = NetworkDictionary(folder.network.dictionary)
        # The second file is the one with many segments, as writers make them.
        file = folder.file(1)
        self._content = file.content()
        self._packed_content = pack(self._content)
        self._ids = np.concatenate([each.ids for _, each in file.objects])
        self._path, self._packed = Path(self._home.name, "plain.dat"), Path(self._home.name, "packed.dat")
        self._path.write_bytes(self._content)
        self._packed.write_bytes(self._packed_content)
        self._words = np.frombuffer(self._content, "<u8")
        self._places = self._found_places([each.ids for _, each in file.objects])

    def __enter__(self) -> ParseBench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._home.cleanup()

    def _found_places(self, lists: list[Any]) -> Any:
        """The word of each counter in the file: found by the first id of each object, from the last place on."""
        places, at = [], 0
        halves = self._words.astype(np.uint32)
        for ids in lists:
            while (halves[at : at + 2 * len(ids) : 2] != ids.astype(np.uint32)).any():
                at += 1
            places.append(at + 2 * np.arange(len(ids)))
            at += 2 * len(ids)
        return np.concatenate(places)

    def results(self, rounds: int) -> Iterator[dict[str, object]]:
        ways: dict[tuple[str, str], Callable[[], int]] = {
            ("attributes", "columns"): self._attributes,
            ("raw", "columns"): self._raw,
            ("headrace", "columns"): self._columns,
            ("headrace", "batches"): self._batches,
            ("pycapnp", "unpack"): self._unpacked_by_pycapnp,
            ("headrace", "unpack"): self._unpacked,
        }
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(rounds):
            for way, read in ways.items():
                known_facts.cache_clear()
                started = time.process_time()
                count = read()
                best[way] = min(best[way], time.process_time() - started)
                if count != self._counters:
                    raise SystemExit(f"{' '.join(way)} read {count:,} counters of {self._counters:,}")
        usual = {
            "columns": ("attributes", "columns"),
            "batches": ("attributes", "columns"),
            "unpack": ("pycapnp", "unpack"),
        }
        for (who, what), seconds in best.items():
            yield {
                "who": who,
                "what": what,
                "n": self._counters,
                "counters_per_s": round(self._counters / seconds),
                "times_usual": round(best[usual[what]] / seconds, 2),
            }
        yield {"who": "headrace", "what": "memory", "n": self._counters, "peak_kib": self._peak() // 1_024}

    def _peak(self) -> int:
        """What reading the file took of memory, beyond what was there before."""
        tracemalloc.start()
        self._batches()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    def _attributes(self) -> int:
        ids, values, objects = [], [], []
        with self._schema.CounterDataCollection.from_bytes(
            self._path.read_bytes(), traversal_limit_in_words=1 << 40
        ) as all_:
            for number, each in enumerate(all_.data):
                fields = (each.time, each.duration, each.location, each.cell)
                for counter in each.data:
                    ids.append(counter.id)
                    values.append(counter.value)
                    objects.append((number, fields))
        return len(values)

    def _raw(self) -> int:
        ids = self._words.view("<i4")[2 * self._places]
        values = self._words.view("<f8")[self._places + 1]
        return len(ids) if len(ids) == len(values) else 0

    def _columns(self) -> int:
        with FileBytes(self._path) as source:
            return sum(len(block.counters) for block in CounterFile(source).blocks())

    def _batches(self) -> int:
        with FileBytes(self._path) as source:
            return sum(batch.read for batch in batches(CounterFile(source), self._dictionary))

    def _unpacked_by_pycapnp(self) -> int:
        message = self._schema.CounterDataCollection.from_bytes_packed(
            self._packed_content, traversal_limit_in_words=1 << 40
        )
        return self._counters if len(message.data) else 0

    def _unpacked(self) -> int:
        written: list[int] = []
        with FileBytes(self._packed) as source:
            unpack(source, lambda piece: written.append(len(piece)))
        return self._counters if sum(written) == len(self._content) else 0
