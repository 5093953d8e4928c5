"""The second module: what the author wants, and whether the post is spam.

Signs vote for an intent; the mood of the sentences votes for praise or complaint, and a question mark for a question.
A question that also wants to buy, to compare or to be helped is the more special of the two. Spam has no other intent
of interest, but keeps the one it shows.
"""

from __future__ import annotations

from functools import cache

from headrace_smap.analytics.modules.drafts import OTHER, Doubt, Draft
from headrace_smap.analytics.modules.pipelines import ModuleOptions
from headrace_smap.analytics.modules.sentiment.rules import strength_of
from headrace_smap.analytics.modules.spam import SPAM_FROM, judge
from headrace_smap.analytics.modules.text.lexicons import Lexicon, entries_of, lexicon

INTENT = "intent"
QUESTION, COMPLAINT, PRAISE, PURCHASE = "question", "complaint", "praise", "purchase"
COMPARISON, NEWS, SUPPORT = "comparison", "news", "support"
INTENTS = (QUESTION, COMPLAINT, PRAISE, PURCHASE, COMPARISON, NEWS, SUPPORT, OTHER)
_DECIDED_FROM = 1.0
_MOOD = 0.8
_MOOD_MAX = 4.0
_ASKS_FOR_HELP = 1.5
_LEAD_MIN = 0.1
"""Two intents whose scores are nearer than this are hard to tell apart."""


@cache
def _signs() -> Lexicon[tuple[str, float]]:
    parts = {phrase: value.split() for phrase, value in entries_of("intents.txt").items()}
    return lexicon({phrase: (name, float(weight)) for phrase, (name, weight) in parts.items()})


class Intent:
    """By signs and mood; see `spam` for the other half."""

    name = INTENT
    version = "1"
    needs = ("prepare",)

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def apply(self, draft: Draft) -> None:
        """Fill `intent`, `intent_score`, `is_spam`, `spam_score`, `spam_reasons` and `uncertain`."""
        draft.spam_score, draft.spam_reasons = judge(draft)
        draft.is_spam = draft.spam_score >= SPAM_FROM
        votes = _votes(draft)
        best = max(INTENTS, key=lambda intent: votes.get(intent, 0.0))
        if votes.get(best, 0.0) < _DECIDED_FROM:
            draft.intent, draft.intent_score = OTHER, 0.0
            return
        draft.intent = best
        draft.intent_score = round(votes[best] / (sum(votes.values()) + 1.0), 3)
        second = max((vote for intent, vote in votes.items() if intent != best), default=0.0)
        lead = round((votes[best] - second) / (sum(votes.values()) + 1.0), 4)
        if lead < _LEAD_MIN:
            draft.uncertain[INTENT] = Doubt(rules=best, margin=lead)


def _votes(draft: Draft) -> dict[str, float]:
    votes: dict[str, float] = {}
    mood = 0.0
    for sentence in draft.sentences:
        mood += strength_of(sentence)
        if sentence.question:
            votes[QUESTION] = max(votes.get(QUESTION, 0.0), 2.5)
        for _, _, (name, weight) in _signs().find(sentence.words, sentence.plain):
            known = votes.get(name, 0.0)
            votes[name] = known + (weight if not known else weight * 0.5)
    spoken = any(word[0].isalpha() for sentence in draft.sentences for word in sentence.words)
    if mood > 0:
        votes[PRAISE] = votes.get(PRAISE, 0.0) + (min(mood, _MOOD_MAX) * _MOOD if spoken else 0.0)
        votes.pop(COMPLAINT, None)
    elif mood < 0:
        votes[COMPLAINT] = votes.get(COMPLAINT, 0.0) + (min(-mood, _MOOD_MAX) * _MOOD if spoken else 0.0)
        votes.pop(PRAISE, None)
    if SUPPORT in votes and QUESTION in votes:
        votes[SUPPORT] += _ASKS_FOR_HELP
    if draft.urls and NEWS in votes:
        votes[NEWS] += 1.0
    return votes
