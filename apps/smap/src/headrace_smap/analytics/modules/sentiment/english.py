"""Sentiment of English sentences: VADER's rules and lexicon, with words of shops and products added.

VADER is read from its package, offline. Stretched words are shortened to what its lexicon knows before it sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from headrace_smap.analytics.modules.text.lexicons import Phrases, entries_of

CHARS_MAX = 1_000
"""So much of one sentence is shown to VADER, whose time grows with the square of it."""
_ALPHA = 15.0
"""VADER's own: its compound is x / sqrt(x² + 15)."""
_COMPOUND_MAX = 0.999
_STRETCHED = re.compile(r"\w*?([a-zA-Z])\1{2,}\w*")
_RUN = re.compile(r"([a-zA-Z])\1{2,}")


class Analyser(Protocol):
    """What is used of VADER, which has no types of its own."""

    lexicon: dict[str, float]

    def polarity_scores(self, text: str) -> dict[str, float]: ...


@cache
def analyser() -> Analyser:
    """VADER with our additions, loaded once."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer  # type: ignore[import-untyped]

    made: Analyser = SentimentIntensityAnalyzer()
    made.lexicon.update({word: float(value) for word, value in entries_of("sentiment_en.txt").items()})
    return made


def is_english(word: str) -> bool:
    """Whether VADER has an opinion about the word."""
    return word in analyser().lexicon


@cache
def _idioms() -> Phrases[float]:
    return Phrases({phrase: float(value) for phrase, value in entries_of("idioms_en.txt").items()})


def strength(text: str, words: Sequence[str]) -> float:
    """The sum of valences behind VADER's compound, so that it can be added to that of other sentences; and idioms."""
    said = sum(value for _, _, value in _idioms().find(words))
    # Most clauses hold no word that VADER judges; a stretched one is known only after it was shortened.
    if analyser().lexicon.keys().isdisjoint(words) and not _RUN.search(text):
        return said
    return said + _vader(text)


def _vader(text: str) -> float:
    compound = float(analyser().polarity_scores(_shortened(text[:CHARS_MAX]))["compound"])
    compound = max(-_COMPOUND_MAX, min(_COMPOUND_MAX, compound))
    return compound * math.sqrt(_ALPHA / (1 - compound * compound))


def _shortened(text: str) -> str:
    return _STRETCHED.sub(_known, text) if _RUN.search(text) else text


def _known(match: re.Match[str]) -> str:
    twice = _RUN.sub(r"\1\1", match[0])
    return twice if is_english(twice.lower()) else _RUN.sub(r"\1", match[0])
