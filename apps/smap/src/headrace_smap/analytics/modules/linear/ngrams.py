"""Texts → hashed n-grams, all texts of a batch at once.

Characters are numbers in one long array, so that an n-gram is a few sums over it and no object of Python. Three groups:
runs of characters, words and pairs of words as written, and the same words without their marks, by which a text typed
bare is still known. A group counts by the root of its size, so that a long text weighs as much as a short one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from headrace_smap.analytics.modules.drafts import Draft
from headrace_smap.analytics.modules.text.lexicons import folded

FEATURES = 1
"""The number of this way of making n-grams. A model that was trained on another one would see noise."""
_SPACE, _NEWLINE = 32, 10
_FACTOR = numpy.uint32(0x9E3779B1)
_SPREAD = numpy.uint32(0x85EBCA6B)
_SHIFTS = numpy.uint32(15), numpy.uint32(13)
_PLACES = 64
_POWERS = numpy.array([pow(int(_FACTOR), place + 1, 1 << 32) for place in range(_PLACES)], dtype=numpy.uint32)
_MARKED_BEFORE = 0x2000
"""All letters with marks of Vietnamese have smaller numbers."""
_BARE = numpy.array([ord(folded(chr(number))) for number in range(_MARKED_BEFORE)], dtype=numpy.uint32)

Numbers = NDArray[numpy.int64]
Hashes = NDArray[numpy.uint32]
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
    """The n-grams of `count` texts: the text, the bucket and the weight of each. They come in runs of one text and
    kind: `starts` is where each run begins, and `owners` whose it is. Those of no weight stand for none."""

    count: int
    rows: Numbers
    buckets: Numbers
    values: Floats
    starts: Numbers
    owners: Numbers


def comparable(draft: Draft) -> str:
    """The words of a prepared draft as a model sees them, with one space between any two."""
    words = [word for sentence in draft.sentences for word in sentence.words]
    return " ".join((*words, *(f"#{tag.lower()}" for tag in draft.hashtags)))


@lru_cache(maxsize=2)
def batch_ngrams(texts: tuple[str, ...], hashing: Hashing) -> Ngrams:
    """The same as `ngrams`; several models look at the same batch, one after the other."""
    return ngrams(texts, hashing)


def ngrams(texts: Sequence[str], hashing: Hashing) -> Ngrams:
    """All n-grams of texts without line breaks, such as `comparable` makes."""
    line = _Line(texts)
    parts = [part for part in (*line.chars(hashing), *line.words(hashing.words_max)) if len(part[0])]
    rows = _joined([each for each, _, _ in parts], numpy.int64)
    begins = rows[1:] != rows[:-1]
    # Also where one kind ends and the next begins: a text alone must be summed up like one among others.
    begins[numpy.cumsum([len(each) for each, _, _ in parts[:-1]], dtype=numpy.int64) - 1] = True
    starts = numpy.concatenate((numpy.zeros(min(len(rows), 1), dtype=numpy.int64), numpy.flatnonzero(begins) + 1))
    return Ngrams(
        len(texts),
        rows,
        _buckets(_joined([hashes for _, hashes, _ in parts], numpy.uint32), hashing.bits),
        _joined([values for _, _, values in parts], numpy.float64),
        starts,
        rows[starts],
    )


def summed(places: Numbers, values: NDArray[numpy.floating[Any]], count: int) -> Floats:
    """The sum of the values of each place; one by one in their order, so that other places change nothing."""
    sums: Any = numpy.bincount(places, values, minlength=count)
    found: Floats = sums
    return found


Part = tuple[Numbers, Hashes, Floats]


class _Line:
    """Texts one behind the other, each between spaces and with a line break behind it."""

    def __init__(self, texts: Sequence[str]) -> None:
        joined = "".join([f" {text} \n" if text else " \n" for text in texts])
        letters = numpy.frombuffer(joined.encode("utf-32-le", "replace"), dtype="<u4")
        self._letters: Hashes = letters.astype(numpy.uint32)
        self._ends: Numbers = numpy.flatnonzero(self._letters == _NEWLINE)
        self._sizes: Numbers = numpy.diff(self._ends, prepend=-1) - 1
        self._rows: Numbers = numpy.repeat(numpy.arange(len(texts)), self._sizes + 1)

    def chars(self, hashing: Hashing) -> Iterator[Part]:
        """Runs of characters, one from each letter on; those that would leave their text count nothing."""
        sizes, count = range(hashing.chars_min, hashing.chars_max + 1), len(self._letters)
        weights = _weights(sum((numpy.maximum(self._sizes - size + 1, 0) for size in sizes), self._sizes * 0))
        values, hashes = weights[self._rows], self._letters
        # So that the last text has as many runs as if others followed.
        padded = numpy.concatenate((self._letters, numpy.zeros(hashing.chars_max, dtype=numpy.uint32)))
        for size in range(2, hashing.chars_max + 1):
            hashes = hashes * _FACTOR + padded[size - 1 : size - 1 + count]
            if size in sizes:
                inside = values.copy()
                across = (self._ends[:, None] - numpy.arange(size)).ravel()
                inside[across[across >= 0]] = 0.0
                yield self._rows, hashes + numpy.uint32(size), inside

    def words(self, words_max: int) -> Iterator[Part]:
        """Words and runs of them, as written and then without marks."""
        gaps = (self._letters == _SPACE) | (self._letters == _NEWLINE)
        starts = numpy.flatnonzero(~gaps & numpy.concatenate(([True], gaps[:-1])))
        if not len(starts):
            return
        index = numpy.arange(len(gaps))
        since_gap = index - numpy.maximum.accumulate(numpy.where(gaps, index, 0))
        powers = numpy.where(gaps, numpy.uint32(0), _POWERS[since_gap % _PLACES])
        rows = self._rows[starts]
        runs = [(size, rows[: len(rows) - size] == rows[size:]) for size in range(words_max)]
        weights = _weights(
            sum((numpy.bincount(rows[: len(each)][each], minlength=len(self._sizes)) for _, each in runs))
        )
        bare = numpy.where(self._letters < _MARKED_BEFORE, _BARE[self._letters % _MARKED_BEFORE], self._letters)
        for salt, letters in ((100, self._letters), (200, bare)):
            words = numpy.add.reduceat(letters * powers, starts, dtype=numpy.uint32)
            hashes = words
            for size, inside in runs:
                hashes = hashes[: len(inside)] * _FACTOR + words[size:] if size else words
                found = rows[: len(inside)][inside]
                yield found, hashes[inside] + numpy.uint32(salt + size), weights[found]


def _joined(parts: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return numpy.concatenate(parts) if parts else numpy.zeros(0, dtype=kind)


def _weights(counts: Any) -> Floats:
    weights: Floats = 1.0 / numpy.sqrt(numpy.maximum(counts, 1))
    return weights


def _buckets(hashes: Hashes, bits: int) -> Numbers:
    mixed = (hashes ^ (hashes >> _SHIFTS[0])) * _SPREAD
    return ((mixed ^ (mixed >> _SHIFTS[1])) >> numpy.uint32(32 - bits)).astype(numpy.int64)
