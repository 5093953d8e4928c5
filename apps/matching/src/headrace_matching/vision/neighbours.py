"""The nearest vectors among many: exactly where they are few, approximately where they are not.

faiss does the work. Vectors are put into lists around centres that are learnt from a sample of them, and a question
looks into the few lists whose centres are nearest. Of the libraries with wheels it was measured against usearch, in one
setting of it: a graph took 7 to 18 times as long to build, and the matcher builds an index per run.
(hnswlib has no wheels.) Bytes are kept as bytes, which is a quarter of the memory of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from headrace_matching.vision.threads import one_thread_each

EXACT_MAX = 4_000
"""So few are compared one by one sooner than an index is made of them."""
LIST_SIZE = 600
"""Vectors in a list: longer ones cost in every question, shorter ones while the index is built."""
SAMPLE_PER_LIST = 40
ROUNDS = 8
_ADD_MAX = 65_536
"""So many bytes-vectors are floats at a time while they are put in."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """For each question its nearest ones, nearest first: squared distances, and their places (-1: there is none)."""

    distances: NDArray[np.float32]
    places: NDArray[np.int64]


class Neighbours:
    """Vectors (n × dimensions, float32 or uint8) that can be asked from several threads at once."""

    def __init__(self, vectors: NDArray[Any], exact: bool = False) -> None:
        one_thread_each()
        count, self._dimensions = vectors.shape
        self._index = self._flat() if exact or count <= EXACT_MAX else self._lists(vectors)
        for start in range(0, count, _ADD_MAX):
            self._index.add(np.ascontiguousarray(vectors[start : start + _ADD_MAX], np.float32))

    def nearest(self, questions: NDArray[Any], count: int, lists: int = 8) -> Nearest:
        """The nearest `count` of each question, looked for in so many lists. Of equal ones the earlier comes first."""
        asked = np.ascontiguousarray(questions, np.float32)
        if not len(asked) or not count or not self._index.ntotal:
            nothing = (len(asked), count)
            return Nearest(np.full(nothing, np.inf, np.float32), np.full(nothing, -1, np.int64))
        if isinstance(self._index, faiss.IndexIVF):
            # Given with the question: a setting of the index would be shared by all threads.
            chosen = faiss.SearchParametersIVF()
            chosen.nprobe = lists
            distances, places = self._index.search(asked, count, params=chosen)
        else:
            distances, places = self._index.search(asked, count)
        return Nearest(distances, places)

    def _flat(self) -> Any:
        return faiss.IndexFlatL2(self._dimensions)

    def _lists(self, vectors: NDArray[Any]) -> Any:
        count = max(1, len(vectors) // LIST_SIZE)
        if vectors.dtype == np.uint8:
            # Not by differences from the centre, which are negative and have no place in a byte.
            kind = faiss.ScalarQuantizer.QT_8bit_direct
            index: Any = faiss.IndexIVFScalarQuantizer(
                self._flat(), self._dimensions, count, kind, faiss.METRIC_L2, False
            )
        else:
            index = faiss.IndexIVFFlat(self._flat(), self._dimensions, count)
        index.cp.niter = ROUNDS
        sample = np.linspace(0, len(vectors) - 1, min(len(vectors), count * SAMPLE_PER_LIST)).astype(np.int64)
        index.train(np.ascontiguousarray(vectors[sample], np.float32))
        return index
