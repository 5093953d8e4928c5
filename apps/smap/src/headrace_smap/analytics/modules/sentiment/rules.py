"""How strongly a sentence speaks for or against something.

Vietnamese: phrases with a strength each, changed by what stands around them. Going back from a phrase, an intensifier
multiplies, a negation turns round, a few small words may stand between; going on, "quá", "lắm", "đâu" belong to it as
well. Whatever is asked, supposed or conceded counts less. English sentences go to VADER; pictures count in both.
The answer is kept in the sentence, because intent and sentiment both need it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from headrace_smap.analytics.modules.drafts import ENGLISH, MIXED, OTHER, UNKNOWN, Sentence
from headrace_smap.analytics.modules.sentiment.english import strength as english_strength
from headrace_smap.analytics.modules.text.clauses import ENDS
from headrace_smap.analytics.modules.text.lexicons import Lexicon, entries_of, folded, lexicon, small_words
from headrace_smap.analytics.modules.text.normal_form import EMOJI_SEQUENCE

WORDS_BACK_MAX = 6
STRANGERS_MAX = 2
_TURNED_GOOD = -0.8
_TURNED_BAD = -0.5
_ASKED_GOOD = 0.2
_ASKED_BAD = 0.6
_EXCLAIMED = 1.1
_PICTURES_MAX = 2
_WEAK = 0.5
_DOUBTS = frozenset(("đâu", "dau"))
_BARE_STRONGER = 1.3
_BARE_BEFORE = (("rat", 1.3), ("qua", 1.3), ("cuc", 1.5), ("sieu", 1.5), ("hoi", 0.6), ("kha", 0.9), ("that", 1.3))
_BARE_AFTER = ("qua", "lam", "ghe", "luon", "phet", "that")
_BARE_DENIALS = ("khong", "chang", "chua")
_PICTURE = re.compile(EMOJI_SEQUENCE)


@cache
def _numbers(name: str) -> Lexicon[float]:
    return lexicon({phrase: float(value) for phrase, value in entries_of(name).items()})


@cache
def _judgements() -> Lexicon[float]:
    """Phrases and their strength. A single word that is too short to be told from others without its marks is known
    there together with a word that belongs to a judgement: `ben` is not `bền`, `rat ben` is."""
    entries = entries_of("sentiment_vi.txt")
    known = {phrase: float(value) for phrase, value in entries.items()}
    bare: dict[str, float] = {}
    doubtful: set[str] = set()
    for phrase, strength in known.items():
        word = folded(phrase.rstrip("!"))
        if " " in phrase or phrase.endswith("~") or word == phrase or not strength:
            continue
        for context, value in _in_bare_contexts(word, strength):
            if bare.setdefault(context, value) * value < 0:
                doubtful.add(context)
    return lexicon({**{context: value for context, value in bare.items() if context not in doubtful}, **known})


def _in_bare_contexts(word: str, strength: float) -> Iterator[tuple[str, float]]:
    for more, factor in _BARE_BEFORE:
        yield f"{more} {word}", strength * factor
    for more in _BARE_AFTER:
        yield f"{word} {more}", strength * _BARE_STRONGER
    for no in _BARE_DENIALS:
        yield f"{no} {word}", strength * (_TURNED_GOOD if strength > 0 else _TURNED_BAD)


@cache
def _denials() -> Lexicon[str]:
    return lexicon(entries_of("negations_vi.txt"))


@cache
def _fillers() -> tuple[frozenset[str], frozenset[str]]:
    fillers = small_words("fillers")
    return fillers, frozenset(map(folded, fillers))


@cache
def _pictures() -> dict[str, float]:
    return {picture: float(value) for picture, value in entries_of("emoji.txt").items()}


def strength_of(sentence: Sentence) -> float:
    """The weighed sum of everything said in a sentence; 2 is a plain "good"."""
    if sentence.valences is None:
        sentence.pictures = list(_picture_valences(sentence.words))
        sentence.valences = [] if sentence.language in (ENGLISH, OTHER) else _word_valences(sentence)
        if sentence.question:
            sentence.valences = [(index, _asked(valence)) for index, valence in sentence.valences]
        sentence.strength = _total(sentence)
    return sentence.strength


def _total(sentence: Sentence) -> float:
    total = 0.0
    if sentence.valences:
        total = sum(weight * clause_strength(sentence, start, end) for start, end, weight in sentence.clauses)
    if sentence.language == ENGLISH or (sentence.language in (MIXED, UNKNOWN) and abs(total) < _WEAK):
        said = english_strength(
            _PICTURE.sub(" ", sentence.text) if sentence.pictures else sentence.text, sentence.words
        )
        total += _asked(said) if sentence.question else said
    total += sum(valence for _, valence in sentence.pictures)
    return total * _EXCLAIMED if "!" in sentence.words else total


def _asked(valence: float) -> float:
    return valence * (_ASKED_GOOD if valence > 0 else _ASKED_BAD)


def clause_strength(sentence: Sentence, start: int, end: int) -> float:
    """What the words between two places of a sentence say."""
    if sentence.language != ENGLISH:
        return sum(valence for index, valence in sentence.valences or () if start <= index < end)
    words = sentence.words[start:end]
    return english_strength(" ".join(words), words)


def _picture_valences(words: list[str]) -> Iterator[tuple[int, float]]:
    pictures = _pictures()
    if pictures.keys().isdisjoint(words):
        return
    seen: dict[str, int] = {}
    for index, word in enumerate(words):
        if word in pictures:
            seen[word] = seen.get(word, 0) + 1
            if seen[word] <= _PICTURES_MAX:
                yield index, pictures[word] / seen[word]


def _word_valences(sentence: Sentence) -> list[tuple[int, float]]:
    words, plain = sentence.words, sentence.plain
    found = _judgements().find(words, plain)
    if not found:
        return []
    before = {end: (start, factor) for start, end, factor in _numbers("before_vi.txt").find(words, plain)}
    after = {start: (end, factor) for start, end, factor in _numbers("after_vi.txt").find(words, plain)}
    denials = {end: start for start, end, _ in _denials().find(words, plain)}
    result: list[tuple[int, float]] = []
    behind = -1
    for start, end, valence in found:
        if start == behind and start in after and result:
            # "đẹp kinh khủng": the second word is no judgement of its own here.
            result[-1] = (result[-1][0], result[-1][1] * after[start][1])
            continue
        behind = end
        if valence:
            factor, denied = _looking_back(words, start, plain, (before, denials))
            onward, doubted = _looking_on(words, end, after, sentence.question)
            turned = denied != doubted
            valence *= factor * onward * (1.0 if not turned else _TURNED_GOOD if valence > 0 else _TURNED_BAD)
            result.append((start, valence))
    return result


def _looking_back(
    words: list[str], start: int, plain: bool, around: tuple[dict[int, tuple[int, float]], dict[int, int]]
) -> tuple[float, bool]:
    before, denials = around
    factor, denied, strangers, place = 1.0, False, 0, start
    fillers = _fillers()[plain]
    while place > 0 and start - place < WORDS_BACK_MAX:
        if place in denials:
            denied = not denied
            place = denials[place]
        elif place in before:
            place, more = before[place]
            factor *= more
        elif words[place - 1] in fillers:
            place -= 1
        elif words[place - 1] in ENDS or strangers == STRANGERS_MAX:
            break
        else:
            strangers += 1
            place -= 1
    return factor, denied


def _looking_on(words: list[str], end: int, after: dict[int, tuple[int, float]], question: bool) -> tuple[float, bool]:
    factor = 1.0
    while end in after:
        end, more = after[end]
        factor *= more
    nearby = words[end : end + 3]
    doubted = not question and any(word in _DOUBTS for word in nearby[:2] if word not in ENDS)
    return factor, doubted
