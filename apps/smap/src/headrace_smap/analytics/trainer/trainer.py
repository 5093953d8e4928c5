"""Labelled texts → a model, and how it does on posts that it has not seen, beside the rules alone.

Folds follow from the texts themselves: the same labels in another order give the same model and the same figures.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy

from headrace.errors import CallerError
from headrace_smap.analytics.modules import AnalysisContext, Draft, Pipeline
from headrace_smap.analytics.modules.linear.classifier import (
    MARGIN_MIN,
    LinearModel,
    judged,
    judged_many,
    logits,
)
from headrace_smap.analytics.modules.linear.learned_module import LABELS, spoken_text
from headrace_smap.analytics.modules.linear.ngrams import Floats, Hashing, Ngrams, ngrams
from headrace_smap.analytics.trainer.label_file import LabelledText
from headrace_smap.analytics.trainer.score import Labels, Score
from headrace_smap.analytics.trainer.solver import Fitted, fit

POSTS_MIN = 10
"""Of a label with fewer posts nothing can be learned, and nothing said about how well it was."""
FOLDS = 5
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Trained:
    """A model, and how rules and model together (`adopted`) do beside the rules on the same folds. `uncertain`: the
    share of posts where the answer says so, and `certain` how often it is right where it does not. `left_out`: aspects
    with too few posts, which stay the rules'."""

    model: LinearModel
    posts: int
    rules: Score
    adopted: Score
    uncertain: float
    certain: float
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What there is to learn: texts as a model sees them, what is right, and what the rules say. The first `scored` are
    asked as well; the rest is only learned from."""

    module: str
    texts: list[str]
    truth: list[Labels]
    rules: list[Labels]
    labels: tuple[str, ...]
    scored: int
    hashing: Hashing = field(default_factory=Hashing)

    @property
    def exclusive(self) -> bool:
        return LABELS[self.module] is not None

    def fitted(self, places: Sequence[int]) -> Fitted:
        wanted = [[float(label in self.truth[place]) for label in self.labels] for place in places]
        return fit(self.grams(places), numpy.array(wanted), self.exclusive)

    def grams(self, places: Sequence[int]) -> Ngrams:
        return ngrams([self.texts[place] for place in places], self.hashing)

    def answers(self, alone: Floats, places: Sequence[int]) -> list[tuple[Labels, bool]]:
        """What model and rules say together of each, and whether that is certain."""
        rules = [self.rules[place] for place in places]
        if self.exclusive:
            single = judged(self.labels, alone, [next(iter(own)) for own in rules])
            found = [(frozenset((one.label,)), frozenset((one.model,)), one.margin) for one in single]
        else:
            found = [(one.labels, one.model, one.margin) for one in judged_many(self.labels, alone, rules)]
        return [
            (labels, model == own and margin >= MARGIN_MIN)
            for (labels, model, margin), own in zip(found, rules, strict=True)
        ]


def train(
    posts: Sequence[LabelledText],
    module: str,
    rules: Pipeline,
    folds: int = FOLDS,
    also: Sequence[LabelledText] = (),
) -> Trained:
    """A model of one module; `rules` are the modules without any model. It learns from `also` too, but says nothing
    about how well it does there: posts by which rules were made would flatter them."""
    own = {post.text for post in posts}
    ordered = [*_ordered(posts), *_ordered([post for post in also if post.text not in own])]
    drafts = drafted(rules, [post.text for post in ordered])
    labels, left_out = _learnable(ordered, module)
    lesson = _Lesson(
        module,
        [spoken_text(draft) for draft in drafts],
        [post.labels for post in ordered],
        [answer(draft, module) for draft in drafts],
        labels,
        len(posts),
    )
    return _assessed(lesson, _model(lesson), min(folds, len(posts)), left_out)


def _model(lesson: _Lesson) -> LinearModel:
    fitted, hashing = lesson.fitted(range(len(lesson.texts))), lesson.hashing
    counts = Counter(label for labels in lesson.truth for label in labels)
    trained_on = {label: counts[label] for label in lesson.labels}
    return LinearModel(lesson.module, lesson.labels, hashing, fitted.spread(hashing.bits), fitted.bias, trained_on)


def _assessed(lesson: _Lesson, model: LinearModel, folds: int, left_out: tuple[str, ...]) -> Trained:
    answers, truth = _cross_validated(lesson, folds), lesson.truth[: lesson.scored]
    certain = [found == right for (found, sure), right in zip(answers, truth, strict=True) if sure]
    return Trained(
        model,
        lesson.scored,
        Score.of(truth, lesson.rules[: lesson.scored]),
        Score.of(truth, [found for found, _ in answers]),
        round(1 - len(certain) / max(lesson.scored, 1), 4),
        round(sum(certain) / max(len(certain), 1), 4),
        left_out,
    )


def drafted(modules: Pipeline, texts: Sequence[str]) -> list[Draft]:
    """What modules make of texts that nobody posted."""
    context = AnalysisContext(NOW)
    return modules.analyse([{"id": "text", "platform": "labels", "text": text} for text in texts], context)


def answer(found: object, module: str) -> Labels:
    """What a finished draft says, or a post that people labelled, in the form of labels."""
    said = getattr(found, module)
    return frozenset(said) if LABELS[module] is None else frozenset((said,))


def _learnable(posts: Sequence[LabelledText], module: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels that have posts enough, and those that have not."""
    counts = Counter(label for post in posts for label in post.labels)
    few = tuple(sorted(label for label, count in counts.items() if count < POSTS_MIN))
    enough = tuple(sorted(label for label, count in counts.items() if count >= POSTS_MIN))
    hint = f"label more of them (--shipped adds posts of ours), or leave the label out; {POSTS_MIN} are the least"
    if few and LABELS[module] is not None:
        told = ", ".join(f"{label}: {counts[label]}" for label in few)
        raise CallerError(f"too few posts to learn from: {told}", hint)
    if not counts:
        raise CallerError("no row has a label yet", hint)
    if len(enough) < (1 if LABELS[module] is None else 2):
        raise CallerError(f"there is nothing to tell apart: only {', '.join(counts)}", hint)
    return enough, few


def _cross_validated(lesson: _Lesson, folds: int) -> list[tuple[Labels, bool]]:
    """What is said of each text that is asked by a model that has not seen it. Each label is in every fold alike."""
    asked, everything = range(lesson.scored), range(len(lesson.texts))
    by_label = sorted(asked, key=lambda place: sorted(lesson.truth[place]))
    fold_of = {place: number % folds for number, place in enumerate(by_label)}
    found: dict[int, tuple[Labels, bool]] = {}
    for fold in range(folds):
        seen = [place for place in everything if fold_of.get(place) != fold]
        unseen = [place for place in asked if fold_of[place] == fold]
        model = lesson.fitted(seen)
        alone = logits(lesson.grams(unseen), model.spread(lesson.hashing.bits), model.bias)
        found |= zip(unseen, lesson.answers(alone, unseen), strict=True)
    return [found[place] for place in asked]


def _ordered(posts: Sequence[LabelledText]) -> list[LabelledText]:
    return sorted(posts, key=lambda post: _digest(post.text))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
