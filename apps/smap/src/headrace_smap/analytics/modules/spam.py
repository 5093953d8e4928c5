"""Is a post advertising or fraud? Signs add up, each with its reason; what an author of a plain opinion does is free.

A phone number alone is no spam, a phone number in a text that sells is. Links count by how much else there is to read.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from headrace_smap.analytics.modules.drafts import Draft
from headrace_smap.analytics.modules.text.lexicons import Lexicon, entries_of, lexicon

SPAM_FROM = 0.55
_REPEAT_WORDS_MIN = 12
_SELLING = frozenset(("selling", "gambling", "loan", "crypto", "job", "followers", "adult", "health"))


@cache
def _signs() -> Lexicon[tuple[str, float]]:
    parts = {phrase: value.split() for phrase, value in entries_of("spam.txt").items()}
    return lexicon({phrase: (reason, float(weight)) for phrase, (reason, weight) in parts.items()})


def judge(draft: Draft) -> tuple[float, list[str]]:
    """From 0 to 1, and why."""
    weights: dict[str, float] = {}
    for sentence in draft.sentences:
        for _, _, (reason, weight) in _signs().find(sentence.words, sentence.plain):
            if not weight:
                continue
            # The second sign of a kind adds less than the first: people do mention offers.
            known = weights.get(reason, 0.0)
            weights[reason] = known + (weight if not known else weight * 0.6)
    sells = bool(weights.keys() & _SELLING)
    words = [word for sentence in draft.sentences for word in sentence.words if word[0].isalnum()]
    _contacts(draft, sells, len(words), weights)
    _repeats(words, weights)
    if len(draft.hashtags) > 8:
        weights["hashtags"] = 0.2 + 0.03 * (len(draft.hashtags) - 8)
    if len(draft.mentions) > 5:
        weights["mentions"] = 0.3
    score = min(sum(weights.values()), 1.0)
    return round(score, 3), sorted(weights, key=lambda reason: (-weights[reason], reason))


def _contacts(draft: Draft, sells: bool, words: int, weights: dict[str, float]) -> None:
    if draft.phones:
        weights["phone"] = 0.45 if sells else 0.25
    if draft.emails:
        weights["email"] = 0.2 if sells else 0.1
    if draft.urls:
        weights["link"] = 0.3 if sells else 0.25 if words < 4 else 0.05
        if len(draft.urls) > 2:
            weights["link"] += 0.1 * min(len(draft.urls), 5)


def _repeats(words: list[str], weights: dict[str, float]) -> None:
    if len(words) < _REPEAT_WORDS_MIN:
        return
    threes = list(zip(words, words[1:], words[2:], strict=False))
    if len(set(threes)) > 0.8 * len(threes):
        return
    repeated = sum(count for count in Counter(threes).values() if count > 2)
    share = repeated / (len(words) - 2)
    if share > 0.4:
        weights["repeated"] = round(share * 0.9, 3)
