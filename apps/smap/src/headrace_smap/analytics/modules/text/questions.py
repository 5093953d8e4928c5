"""Is a sentence a question? Half of them lack the question mark.

In Vietnamese `không` at the end asks and elsewhere denies, so the end is looked at behind everything polite that may
follow it ("có bền không ạ shop ơi").
"""

from __future__ import annotations

from functools import cache

from headrace_smap.analytics.modules.drafts import ENGLISH, OTHER, Sentence
from headrace_smap.analytics.modules.text.lexicons import Lexicon, entries_of, folded, lexicon, small_words

_TAIL_MAX = 8


@cache
def _asks() -> Lexicon[str]:
    return lexicon({phrase: value for phrase, value in entries_of("questions.txt").items() if value == "asks"})


@cache
def _ends() -> tuple[frozenset[str], frozenset[str]]:
    marked = {phrase.rstrip("~!") for phrase, value in entries_of("questions.txt").items() if value == "ends"}
    return frozenset(marked), frozenset(map(folded, marked)) - {"a", "hong"}


@cache
def _tail() -> tuple[frozenset[str], frozenset[str]]:
    marked = {phrase.rstrip("~!") for phrase, value in entries_of("questions.txt").items() if value == "tail"}
    return frozenset(marked), frozenset(map(folded, marked))


def is_question(sentence: Sentence) -> bool:
    """Whether the author wants to know something."""
    words = sentence.words
    if "?" in words:
        return True
    if sentence.language == OTHER:
        return False
    if sentence.language == ENGLISH:
        return words[0] in small_words("asking") and len(words) > 3 and "!" not in words
    return bool(_asks().find(words, sentence.plain)) or _asks_at_the_end(words, sentence.plain)


def _asks_at_the_end(words: list[str], plain: bool) -> bool:
    tail, ends = _tail()[plain], _ends()[plain]
    last = len(words) - 1
    stop = max(0, last - _TAIL_MAX)
    while last > stop and words[last] not in ends and (words[last] in tail or not words[last][0].isalnum()):
        last -= 1
    if last < 1:
        return False
    return words[last] in ends or f"{words[last - 1]} {words[last]}" in ends
