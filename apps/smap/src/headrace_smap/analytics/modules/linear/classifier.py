"""A linear model, and what it and the rules say together.

The model adds up a number per n-gram and label. The rules are a second witness, whose word counts like a fixed number
on top: so they decide where the model knows little of a text, and are overruled where it has seen many like it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from headrace_smap.analytics.modules.linear.ngrams import Floats, Hashing, Ngrams, batch_ngrams, summed

RULES_WEIGHT = 1.2
"""Near the log odds (ln 3) of a witness who is right about six of ten posts among three labels: as good as the rules
are on posts that nobody had in mind when their lists were written."""
NAMED_WEIGHT = 5.0
"""The same where any number of labels may hold: a phrase of a list nearly always means its aspect."""
RARE = 1.0
"""Added to every such label: few posts have any one of them, so a model of few posts says no too often."""
MARGIN_MIN = 0.2
"""A lead of the first label over the second, in shares of 1, below which an answer is uncertain."""


@dataclass(frozen=True, slots=True)
class LinearModel:
    """`weights` has a row per label and a column per bucket; `trained_on` says how many posts had each label."""

    module: str
    labels: tuple[str, ...]
    hashing: Hashing
    weights: NDArray[numpy.float32]
    bias: NDArray[numpy.float32]
    trained_on: dict[str, int]
    digest: str = ""

    def logits(self, texts: Sequence[str]) -> Floats:
        """A row per text and a column per label; the same for a text in whatever batch it is."""
        return logits(batch_ngrams(tuple(texts), self.hashing), self.weights, self.bias)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What model and rules say together, what the model says alone, and the lead of the answer. `shares` are those of
    all labels, in the order of the model's."""

    label: str
    model: str
    margin: float
    shares: Sequence[float]


@dataclass(frozen=True, slots=True)
class ManyJudgement:
    """The same where any number of labels may hold; `margin` is the smallest lead of a yes over a no or the reverse."""

    labels: frozenset[str]
    model: frozenset[str]
    margin: float


def logits(grams: Ngrams, weights: NDArray[numpy.float32], bias: NDArray[numpy.float32]) -> Floats:
    """What the n-grams of each text add up to for each label."""
    if not len(grams.starts):
        return numpy.zeros((grams.count, len(weights))) + bias.astype(numpy.float64)
    sums = [
        summed(grams.owners, numpy.add.reduceat(of_label[grams.buckets] * grams.values, grams.starts), grams.count)
        for of_label in weights
    ]
    added: Floats = numpy.stack(sums, axis=1) + bias.astype(numpy.float64)
    return added


def judged(labels: Sequence[str], alone: Floats, rules: Sequence[str]) -> list[Judgement]:
    """One label per text, of a model's logits and what the rules say."""
    numbers = {label: number for number, label in enumerate(labels)}
    together = alone.copy()
    for row, label in enumerate(rules):
        if label in numbers:
            together[row, numbers[label]] += RULES_WEIGHT
    powers = numpy.exp(together - together.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    ordered = numpy.sort(shares, axis=1)
    answers = zip(
        shares.argmax(axis=1).tolist(),
        alone.argmax(axis=1).tolist(),
        (ordered[:, -1] - ordered[:, -2]).tolist(),
        shares.tolist(),
        strict=True,
    )
    return [Judgement(labels[best], labels[own], round(lead, 4), each) for best, own, lead, each in answers]


def judged_many(labels: Sequence[str], alone: Floats, rules: Sequence[Collection[str]]) -> list[ManyJudgement]:
    """Any number of labels per text. Labels that the model does not know are the rules' alone."""
    said = numpy.array([[label in found for label in labels] for found in rules], dtype=float).reshape(alone.shape)
    together = alone + RARE + NAMED_WEIGHT * said
    leads = numpy.abs(numpy.tanh(together / 2.0)).min(axis=1, initial=1.0).tolist()
    known = frozenset(labels)
    return [
        ManyJudgement(
            frozenset(label for label, yes in zip(labels, row, strict=True) if yes) | (frozenset(found) - known),
            frozenset(label for label, yes in zip(labels, own, strict=True) if yes) | (frozenset(found) - known),
            round(lead, 4),
        )
        for found, row, own, lead in zip(rules, together > 0, alone + RARE > 0, leads, strict=True)
    ]
