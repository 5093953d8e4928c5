"""Where a clause begins, and how much it weighs: in "đẹp nhưng đắt" the second half is what the author means."""

from __future__ import annotations

from functools import cache

from headrace_smap.analytics.modules.drafts import Sentence
from headrace_smap.analytics.modules.text.lexicons import Lexicon, entries_of, lexicon

Clause = tuple[int, int, float]
ENDS = frozenset(",;:.…!?")
"""Punctuation that ends a thought."""


@cache
def _openers() -> Lexicon[tuple[float, float]]:
    weights = {phrase: value.split() for phrase, value in entries_of("clauses.txt").items()}
    return lexicon({phrase: (float(before), float(after)) for phrase, (before, after) in weights.items()})


def clauses(sentence: Sentence) -> list[Clause]:
    """(first word, word behind the last, weight) of each clause; together they are the whole sentence."""
    words = sentence.words
    opened = {start: weights for start, _, weights in _openers().find(words, sentence.plain)}
    ended = [index for index, word in enumerate(words) if word in ENDS]
    found: list[Clause] = []
    begin, weight = 0, 1.0
    for index in sorted({*opened, *ended}):
        if index in opened:
            before, after = opened[index]
            if index > begin:
                found.append((begin, index, weight))
            if before != 1.0:
                found = [(start, end, known * before) for start, end, known in found]
            begin, weight = index, after
        else:
            # The weight of a contrast lasts until the sentence ends, that of a concession only to the comma.
            found.append((begin, index + 1, weight))
            begin, weight = index + 1, max(weight, 1.0)
    if begin < len(words):
        found.append((begin, len(words), weight))
    return found
