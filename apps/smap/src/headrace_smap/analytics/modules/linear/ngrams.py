"""Texts → hashed n-grams, all texts of a batch at once.

Characters are numbers in one long array, so that an n-gram is a few sums over it and no object of Python. Three groups:
runs of characters, words and pairs of words as written, and the same words without their marks, by which a text typed
bare is still known. A group counts by the root of its size, so that a long text weighs as much as a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray

from headrace_smap.analytics.modules.drafts import Draft
from headrace_smap.analytics.modules.text.lexicons import folded

FEATURES = 1
"""The number of this way of making n-grams. A model that was trained on another one would see noise."""
_SPACE, _NEWLINE = 32, 10
_FACTOR = numpy.uint64(0x9E3779B97F4A7C15)
_SPREAD = numpy.uint64(0xD6E8FEB86659FD93)
_SHIFTS = numpy.uint64(31), numpy.uint64(29)
_PLACES = 64
_POWERS = numpy.array([pow(int(_FACTOR), place + 1, 1 << 64) for place in range(_PLACES)], dtype=numpy.uint64)

Numbers = NDArray[numpy.int64]
Hashes = NDArray[numpy.uint64]
Floats = NDArray[numpy.float64]


@dataclass(frozen=True, slots=True)
class Hashing:
    """How n-grams become numbers: into 2**bits buckets, of so many characters and words."""

    bits: int = 18
    chars_min: int = 2
    chars_max: int = 4
    words_max: int = 2


@dataclass(frozen=True, slots=True)
class Ngrams:
    """The n-grams of `count` texts: the text, the bucket and the weight of each."""

    count: int
    rows: Numbers
    buckets: Numbers
    values: Floats


def comparable(draft: Draft) -> str:
    """The words of a prepared draft as a model sees them, with one space between any two."""
    words = [word for sentence in draft.sentences for word in sentence.words]
    return " ".join((*words, *(f"#{tag.lower()}" for tag in draft.hashtags)))


def ngrams(texts: Sequence[str], hashing: Hashing) -> Ngrams:
    """All n-grams of texts without line breaks, such as `comparable` makes."""
    groups = list(_groups(texts, hashing)) if texts else []
    rows = [_weighed(group, len(texts)) for group in groups]
    return Ngrams(
        len(texts),
        _joined([found for each in groups for found, _ in each], numpy.int64),
        _joined([_buckets(hashes, hashing.bits) for each in groups for _, hashes in each], numpy.int64),
        _joined(rows, numpy.float64),
    )


def summed(places: Numbers, values: NDArray[numpy.floating[Any]], count: int) -> Floats:
    """The sum of the values of each place; one by one in their order, so that other places change nothing."""
    sums: Any = numpy.bincount(places, values, minlength=count)
    found: Floats = sums
    return found


def _groups(texts: Sequence[str], hashing: Hashing) -> Iterator[list[tuple[Numbers, Hashes]]]:
    marked = _Letters(texts)
    yield [marked.chars(size) for size in range(hashing.chars_min, hashing.chars_max + 1)]
    yield marked.words(hashing.words_max, 100)
    yield _Letters([folded(text) for text in texts]).words(hashing.words_max, 200)


class _Letters:
    """Texts one behind the other, each between spaces and on a line of its own."""

    def __init__(self, texts: Sequence[str]) -> None:
        joined = "\n".join([f" {text} " if text else " " for text in texts])
        letters = numpy.frombuffer(joined.encode("utf-32-le", "replace"), dtype="<u4")
        self._ends: NDArray[numpy.bool_] = letters == _NEWLINE
        self._gaps: NDArray[numpy.bool_] = (letters == _SPACE) | self._ends
        self._rows: Numbers = numpy.cumsum(self._ends, dtype=numpy.int64)
        self._letters: Hashes = letters.astype(numpy.uint64)

    def chars(self, size: int) -> tuple[Numbers, Hashes]:
        """Runs of so many characters that do not leave their text."""
        count = max(len(self._letters) - size + 1, 0)
        hashes = numpy.full(count, size, dtype=numpy.uint64)
        for place in range(size):
            hashes = hashes * _FACTOR + self._letters[place : place + count]
        rows = self._rows[:count]
        inside = (rows == self._rows[size - 1 : size - 1 + count]) & ~self._ends[:count]
        return rows[inside], hashes[inside]

    def words(self, words_max: int, salt: int) -> list[tuple[Numbers, Hashes]]:
        """Words, and runs of up to so many of them."""
        gaps = self._gaps
        starts = numpy.flatnonzero(~gaps & numpy.concatenate(([True], gaps[:-1])))
        if not len(starts):
            return []
        index = numpy.arange(len(gaps))
        since_gap = index - numpy.maximum.accumulate(numpy.where(gaps, index, 0))
        told = numpy.where(gaps, numpy.uint64(0), self._letters * _POWERS[since_gap % _PLACES])
        words = numpy.add.reduceat(told, starts)
        rows, hashes = self._rows[starts], words + numpy.uint64(salt)
        found = [(rows, hashes)]
        for size in range(1, words_max):
            hashes = hashes[:-1] * _FACTOR + words[size:]
            inside = rows[: len(hashes)] == rows[size:]
            found.append((rows[: len(hashes)][inside], hashes[inside]))
        return found


def _weighed(group: list[tuple[Numbers, Hashes]], count: int) -> Floats:
    rows = _joined([found for found, _ in group], numpy.int64)
    sizes = numpy.bincount(rows, minlength=count)
    weighed: Floats = (1.0 / numpy.sqrt(numpy.maximum(sizes, 1)))[rows]
    return weighed


def _buckets(hashes: Hashes, bits: int) -> Numbers:
    mixed = (hashes ^ (hashes >> _SHIFTS[0])) * _SPREAD
    return ((mixed ^ (mixed >> _SHIFTS[1])) >> numpy.uint64(64 - bits)).astype(numpy.int64)


def _joined(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return numpy.concatenate(parts) if parts else numpy.zeros(0, dtype=kind)
