"""The fourth module: how a post is meant, as a whole and about each of its aspects."""

from __future__ import annotations

import math
from itertools import groupby
from operator import itemgetter

from headrace_smap.analytics.modules.drafts import (
    MIXED,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    BatchModule,
    Doubt,
    Draft,
    Module,
    Sentence,
)
from headrace_smap.analytics.modules.intent import SUPPORT
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.sentiment.rules import clause_strength, strength_of

SENTIMENT = "sentiment"
_ALPHA = 15.0
ASKED_FOR_HELP = 0.4
LABEL_FROM = 0.2
"""A score nearer to nought than this is neutral."""
_DOUBTED_WITHIN = 0.1
"""So near to the border between two labels either could be meant."""


def scored(strength: float) -> float:
    """From -1 to 1; a plain "good" is 0.46."""
    return round(strength / math.sqrt(strength * strength + _ALPHA), 4)


def labelled(score: float) -> str:
    """The word for a score."""
    if score >= LABEL_FROM:
        return POSITIVE
    return NEGATIVE if score <= -LABEL_FROM else NEUTRAL


def sentiment(options: ModuleOptions) -> Module | BatchModule:
    """A model if one is named, rules otherwise."""
    if options.sentiment_model is None:
        return Sentiment(options)
    from headrace_smap.analytics.modules.sentiment.model import ModelSentiment

    return ModelSentiment(options.sentiment_model)


class Sentiment:
    """By rules; see `sentiment_rules` and `sentiment_english`."""

    name = SENTIMENT
    version = "1"
    needs = ("prepare",)

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def warm(self) -> None:
        """Load VADER and the word lists."""
        strength_of(Sentence("tốt", ["tốt"], MIXED, clauses=[(0, 1, 1.0)]))

    def apply(self, draft: Draft) -> None:
        """Fill `sentiment`, `sentiment_score`, `aspect_sentiments` and `uncertain`."""
        said = sum(map(strength_of, draft.sentences))
        # Whoever asks for help names a fault without passing judgement.
        draft.sentiment_score = scored(said * ASKED_FOR_HELP if said < 0 and draft.intent == SUPPORT else said)
        draft.sentiment = labelled(draft.sentiment_score)
        lead = round(abs(abs(draft.sentiment_score) - LABEL_FROM), 4)
        if lead < _DOUBTED_WITHIN:
            draft.uncertain[SENTIMENT] = Doubt(rules=draft.sentiment, margin=lead)
        by_aspect: dict[str, float] = {}
        for number, places in groupby(draft.aspect_places, key=itemgetter(1)):
            found = [(aspect, index) for aspect, _, index in places]
            for aspect, about_it in _by_aspect(draft.sentences[number], found):
                by_aspect[aspect] = by_aspect.get(aspect, 0.0) + about_it
        draft.aspect_sentiments = {
            aspect: {"label": labelled(scored(total)), "score": scored(total)} for aspect, total in by_aspect.items()
        }


def _by_aspect(sentence: Sentence, places: list[tuple[str, int]]) -> list[tuple[str, float]]:
    """What a sentence says about each aspect that it names: clause by clause, if it has more than one."""
    if len(sentence.clauses) == 1:
        whole = strength_of(sentence)
        return [(aspect, whole) for aspect in dict.fromkeys(aspect for aspect, _ in places)]
    clauses = [(aspect, _clause_at(sentence, index)) for aspect, index in places]
    taken = {clause for _, clause in clauses}
    return [(aspect, _said_about(sentence, clause, taken)) for aspect, clause in dict.fromkeys(clauses)]


def _said_about(sentence: Sentence, clause: int, taken: set[int]) -> float:
    """What its own clause says; if that is nothing, the next or the one before, unless it is about something else."""
    for near in (clause, clause + 1, clause - 1):
        if 0 <= near < len(sentence.clauses) and (near == clause or near not in taken):
            start, end, _ = sentence.clauses[near]
            said = clause_strength(sentence, start, end)
            if said:
                return said
    # Pictures speak of the whole sentence: they count where words are silent.
    return sum(valence for _, valence in sentence.pictures)


def _clause_at(sentence: Sentence, index: int) -> int:
    return next(number for number, (_, end, _) in enumerate(sentence.clauses) if index < end)
