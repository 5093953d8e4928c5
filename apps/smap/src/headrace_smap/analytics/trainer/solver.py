"""The weights of a linear model: logistic regression with a penalty on large weights, by L-BFGS.

The loss is smooth and has one minimum, so there is nothing to draw by lot: the same posts give the same weights. Sums
are made by numpy alone and not by a BLAS, whose threads would change their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from headrace_smap.analytics.modules.linear.ngrams import Floats, Ngrams, Numbers

STEPS_MAX = 30
"""More steps make the loss lower and the answers about other posts no better."""
REMEMBERED = 8
ENOUGH = 1e-5
"""A step that lowers the loss by less than this part of it is the last."""
FREEDOM = 4.0
"""How large weights may grow (the C of other libraries); between 1 and 16 hardly anything changes."""
Loss = Callable[[Floats], tuple[float, Floats]]


@dataclass(frozen=True, slots=True)
class Fitted:
    """A row per label; `buckets` are those that more than one post of the training has."""

    buckets: Numbers
    weights: NDArray[numpy.float32]
    bias: NDArray[numpy.float32]

    def spread(self, bits: int) -> NDArray[numpy.float32]:
        """The weights of all buckets."""
        weights = numpy.zeros((len(self.weights), 1 << bits), dtype=numpy.float32)
        weights[:, self.buckets] = self.weights
        return weights


def fit(grams: Ngrams, truth: Floats, exclusive: bool) -> Fitted:
    """`truth` has a row per text and a column per label; `exclusive`: each text has exactly one."""
    table = _Table.of(grams)
    posts, labels = truth.shape
    penalty = 1.0 / (FREEDOM * posts)
    columns = len(table.buckets)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(labels, columns + 1)
        said = table.times(weights)
        cost, wrong = (_softmax if exclusive else _sigmoid)(said, truth)
        slope = numpy.empty_like(weights)
        for label in range(labels):
            slope[label, :-1] = table.back(wrong[:, label]) / posts
        slope[:, -1] = wrong.sum(axis=0) / posts
        slope[:, :-1] += penalty * weights[:, :-1]
        return cost / posts + 0.5 * penalty * float((weights[:, :-1] ** 2).sum()), slope.ravel()

    weights = _lowest(loss, numpy.zeros(labels * (columns + 1))).reshape(labels, columns + 1)
    return Fitted(table.buckets, weights[:, :-1].astype(numpy.float32), weights[:, -1].astype(numpy.float32))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of a sparse table in the order of one side: whose they are there, where they stand on the other side."""

    owners: Numbers
    starts: Numbers
    others: Numbers
    values: Floats

    @staticmethod
    def of(sides: tuple[Numbers, Numbers], values: Floats) -> _Cells:
        side, others = sides
        order = numpy.argsort(side, kind="stable")
        starts = numpy.flatnonzero(numpy.diff(side[order], prepend=-1))
        return _Cells(side[order][starts], starts, others[order], values[order])

    def summed(self, factors: Floats, count: int) -> Floats:
        """The cells of each times the factors of the other side."""
        sums = numpy.zeros(count)
        if len(self.owners):
            sums[self.owners] = numpy.add.reduceat(factors[self.others] * self.values, self.starts)
        return sums


@dataclass(frozen=True, slots=True)
class _Table:
    """The n-grams of the training as a sparse table with a column per bucket that more than one post has."""

    posts: int
    buckets: Numbers
    by_row: _Cells
    by_column: _Cells

    @staticmethod
    def of(grams: Ngrams) -> _Table:
        # What one post has and no other is left out; an n-gram that a post has twice is two cells, and weighs so.
        buckets_max = int(grams.buckets.max(initial=-1)) + 1
        some_row, shared = numpy.zeros(buckets_max, dtype=numpy.int64), numpy.zeros(buckets_max, dtype=bool)
        real = grams.values > 0
        some_row[grams.buckets[real]] = grams.rows[real]
        shared[grams.buckets[real & (some_row[grams.buckets] != grams.rows)]] = True
        inside = real & shared[grams.buckets]
        rows, columns = grams.rows[inside], (numpy.cumsum(shared) - 1)[grams.buckets[inside]]
        by_row, by_column = (_Cells.of(sides, grams.values[inside]) for sides in ((rows, columns), (columns, rows)))
        return _Table(grams.count, numpy.flatnonzero(shared), by_row, by_column)

    def times(self, weights: Floats) -> Floats:
        sums = [self.by_row.summed(each, self.posts) for each in weights]
        return numpy.stack(sums, axis=1) + weights[:, -1]

    def back(self, wrong: Floats) -> Floats:
        return self.by_column.summed(wrong, len(self.buckets))


def _softmax(said: Floats, truth: Floats) -> tuple[float, Floats]:
    said = said - said.max(axis=1, keepdims=True)
    powers = numpy.exp(said)
    sums = powers.sum(axis=1, keepdims=True)
    return -float(((said - numpy.log(sums)) * truth).sum()), powers / sums - truth


def _sigmoid(said: Floats, truth: Floats) -> tuple[float, Floats]:
    cost = numpy.logaddexp(0.0, said) - said * truth
    return float(cost.sum()), 0.5 * (1.0 + numpy.tanh(said / 2.0)) - truth


def _lowest(loss: Loss, place: Floats) -> Floats:
    """Where the loss is lowest, going down from `place`."""
    cost, slope = loss(place)
    steps: list[tuple[Floats, Floats]] = []
    for _ in range(STEPS_MAX):
        way = -_turned(slope, steps)
        there, lower, next_slope = _walked(loss, place, way, (cost, slope))
        step = there - place, next_slope - slope
        if _dot(*step) > 0:
            steps = [*steps, step][-REMEMBERED:]
        gained, cost, place, slope = cost - lower, lower, there, next_slope
        if gained <= ENOUGH * max(abs(cost), ENOUGH):
            break
    return place


def _turned(slope: Floats, steps: list[tuple[Floats, Floats]]) -> Floats:
    """The slope, bent by what the last steps say about the curve (two loops over them)."""
    way, shares = slope.copy(), []
    for moved, changed in reversed(steps):
        shares.append(_dot(moved, way) / _dot(changed, moved))
        way -= shares[-1] * changed
    if steps:
        moved, changed = steps[-1]
        way *= _dot(moved, changed) / _dot(changed, changed)
    else:
        way /= max(1.0, float(numpy.sqrt(_dot(way, way))))
    for (moved, changed), share in zip(steps, reversed(shares), strict=True):
        way += moved * (share - _dot(changed, way) / _dot(changed, moved))
    return way


def _walked(loss: Loss, place: Floats, way: Floats, now: tuple[float, Floats]) -> tuple[Floats, float, Floats]:
    """As far along the way as the loss really falls."""
    cost, slope = now
    length, falls = 1.0, _dot(slope, way)
    while True:
        there = place + length * way
        lower, next_slope = loss(there)
        if lower <= cost + 1e-4 * length * falls:
            return there, lower, next_slope
        if length < 1e-6:
            return place, cost, slope
        length /= 2


def _dot(one: Floats, other: Floats) -> float:
    return float((one * other).sum())
