"""A module of rules with a model beside it.

The rules fill in every draft, as they would without a model; then both are asked together. Labels stay those that the
rules know. Where the two disagree, or the answer leads by little, the draft says so: those posts are worth a look.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.errors import CallerError
from headrace_smap.analytics.modules.aspects import ASPECTS, known_aspects
from headrace_smap.analytics.modules.drafts import (
    NEGATIVE,
    NEUTRAL,
    OTHER,
    POSITIVE,
    SENTIMENTS,
    AspectSentiment,
    Doubt,
    Draft,
    Module,
)
from headrace_smap.analytics.modules.intent import INTENT, INTENTS
from headrace_smap.analytics.modules.linear.classifier import MARGIN_MIN, LinearModel, judged, judged_many, logits
from headrace_smap.analytics.modules.linear.model_file import read
from headrace_smap.analytics.modules.linear.ngrams import Floats, comparable, ngrams
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.sentiment.module import LABEL_FROM, SENTIMENT

SETTING = "SMAP_MODELS"
PLAIN_SCORE = 0.46
"""What a plain "good" scores; a model knows how sure it is, not how strongly somebody speaks."""
NO_LABELS = "none"
LABELS: dict[str, tuple[str, ...] | None] = {SENTIMENT: SENTIMENTS, INTENT: INTENTS, ASPECTS: None}
"""The labels of each module that can learn; None: any number of them may hold, and lists may bring more."""


def models_in(options: ModuleOptions, modules: Sequence[str]) -> dict[str, LinearModel]:
    """The models that the options name by their module, each of which is one of `modules`."""
    found: dict[str, LinearModel] = {}
    for path in options.models:
        try:
            model = read(Path(path))
        except CallerError as error:
            raise CallerError(f"{SETTING}: {error}", error.hint) from error
        known = LABELS.get(model.module, ())
        strange = set(model.labels) - set(known_aspects(options) if known is None else known)
        if strange:
            hint = "train it with this version, and with the same SMAP_ASPECTS"
            raise CallerError(f"{SETTING}: {path} has labels that no module gives: {', '.join(sorted(strange))}", hint)
        if model.module not in modules:
            raise CallerError(f"{SETTING}: {path} is of {model.module}, which SMAP_MODULES leaves out", "name both")
        if found.setdefault(model.module, model) is not model:
            raise CallerError(f"{SETTING} names two models of {model.module}", "keep one of them")
    return found


def spoken_text(draft: Draft) -> str:
    """What a model sees of a draft; nothing of a language that it cannot have learned."""
    return comparable(draft) if draft.language != OTHER else ""


def written(labels: Sequence[str] | frozenset[str]) -> str:
    """Any number of labels in one cell."""
    return ";".join(sorted(labels)) or NO_LABELS


class LearnedModule:
    """Takes the place of its rules in a pipeline."""

    def __init__(self, rules: Module, model: LinearModel) -> None:
        self._rules, self._model = rules, model
        self.name, self.version = rules.name, f"{rules.version}+{model.digest}"
        self.needs: tuple[str, ...] = getattr(rules, "needs", ())

    def warm(self) -> None:
        """What the rules would load."""
        load: Callable[[], None] | None = getattr(self._rules, "warm", None)
        if load is not None:
            load()

    def apply_all(self, drafts: Sequence[Draft]) -> None:
        """Fill in what the rules fill in, and `uncertain`."""
        for draft in drafts:
            self._rules.apply(draft)
        texts = [spoken_text(draft) for draft in drafts]
        spoken = [draft for draft, text in zip(drafts, texts, strict=True) if text]
        if spoken:
            _FILLED[self.name](self._model, spoken, self._model.logits([text for text in texts if text]))


def _fill_sentiment(model: LinearModel, drafts: Sequence[Draft], alone: Floats) -> None:
    places = {label: place for place, label in enumerate(model.labels)}
    for draft, found in zip(drafts, judged(model.labels, alone, [one.sentiment for one in drafts]), strict=True):
        _doubt(draft, SENTIMENT, Doubt(rules=draft.sentiment, model=found.model, margin=found.margin))
        if found.label == draft.sentiment:
            continue
        good, bad = (found.shares[places[one]] if one in places else 0.0 for one in (POSITIVE, NEGATIVE))
        draft.sentiment, draft.sentiment_score = found.label, _score(found.label, good - bad)
        if len(draft.aspect_sentiments) == 1:
            # The only thing that it speaks of is what it speaks well or ill of.
            said = AspectSentiment(label=draft.sentiment, score=draft.sentiment_score)
            draft.aspect_sentiments = dict.fromkeys(draft.aspect_sentiments, said)


def _score(label: str, lead: float) -> float:
    """A score that has this label."""
    if label == NEUTRAL:
        return 0.0
    return round(max(PLAIN_SCORE * abs(lead), LABEL_FROM), 4) * (1 if label == POSITIVE else -1)


def _fill_intent(model: LinearModel, drafts: Sequence[Draft], alone: Floats) -> None:
    for draft, found in zip(drafts, judged(model.labels, alone, [one.intent for one in drafts]), strict=True):
        _doubt(draft, INTENT, Doubt(rules=draft.intent, model=found.model, margin=found.margin))
        if found.label != draft.intent:
            draft.intent, draft.intent_score = found.label, round(max(found.shares), 3)


def _fill_aspects(model: LinearModel, drafts: Sequence[Draft], alone: Floats) -> None:
    for draft, found in zip(drafts, judged_many(model.labels, alone, [one.aspects for one in drafts]), strict=True):
        _doubt(draft, ASPECTS, Doubt(rules=written(draft.aspects), model=written(found.model), margin=found.margin))
        new = sorted(found.labels - set(draft.aspects))
        draft.aspects = sorted(found.labels)
        draft.aspect_places = [place for place in draft.aspect_places if place[0] in found.labels]
        if new:
            draft.aspect_places += _placed(model, draft, new)
            draft.aspect_places.sort(key=lambda place: place[1:])


def _placed(model: LinearModel, draft: Draft, aspects: Sequence[str]) -> list[tuple[str, int, int]]:
    """The sentences that speak most of aspects that no phrase names."""
    if len(draft.sentences) == 1:
        return [(aspect, 0, 0) for aspect in aspects]
    sentences = ngrams([" ".join(sentence.words) for sentence in draft.sentences], model.hashing)
    said = logits(sentences, model.weights, model.bias)
    return [(aspect, int(said[:, model.labels.index(aspect)].argmax()), 0) for aspect in aspects]


def _doubt(draft: Draft, name: str, doubt: Doubt) -> None:
    draft.uncertain.pop(name, None)
    if doubt["margin"] < MARGIN_MIN or doubt["rules"] != doubt["model"]:
        draft.uncertain[name] = doubt


_FILLED: dict[str, Callable[[LinearModel, Sequence[Draft], Floats], None]] = {
    SENTIMENT: _fill_sentiment,
    INTENT: _fill_intent,
    ASPECTS: _fill_aspects,
}
