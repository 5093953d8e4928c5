"""Which language a sentence is in: Vietnamese, English, something else, or nobody can say.

Words vote. A letter such as ơ or ạ is Vietnamese and nothing else; function words give English away; sentences typed
without marks are known by syllables no English word looks like ("xe nay chay rat em"). That decides nearly everything
in microseconds. Only Latin text that stays undecided is shown to lingua's n-grams, which are loaded at the first such
text, with the languages that are seen most beside these two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headrace_smap.analytics.modules.drafts import ENGLISH, MIXED, OTHER, UNKNOWN, VIETNAMESE, Sentence
from headrace_smap.analytics.modules.sentiment.english import is_english
from headrace_smap.analytics.modules.text.lexicons import MARKED, folded, words_of

if TYPE_CHECKING:
    from lingua import LanguageDetector

LINGUA_CHARS_MAX = 300
LINGUA_CHARS_MIN = 12
LINGUA_WORDS_MIN = 3
_ONLY_VIETNAMESE = frozenset("đơưạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹĩũ")
_SYLLABLE = re.compile(
    r"(?:ngh|ng|nh|ch|gh|gi|kh|ph|qu|th|tr|[bcdghklmnpqrstvx])?"
    r"(?:uye|uya|oai|oay|oeo|uay|uoi|uou|ieu|yeu|oao|uyu|ia|ie|ye|ua|uo|oa|oe|oo|ue|uy|ai|ao|au|ay|eo|eu|iu|oi|ui|uu"
    r"|[aeiouy])(?:ch|nh|ng|[cmnpt])?"
)
_LATIN = re.compile(r"[a-zà-ɏḀ-ỿ]")
_SUFFIXES = ("ing", "ed", "ly", "tion", "ment", "ness", "ful", "less", "able", "ive", "ous", "ies", "ers", "'s", "n't")
_MIXED_SHARE = 0.2


class Votes(NamedTuple):
    """What the words of a text say, summed."""

    marked: float = 0.0
    bare: float = 0.0
    english: float = 0.0
    latin: int = 0
    foreign: int = 0
    surely: int = 0


class WordKind(IntEnum):
    """What one word can say."""

    SILENT = 0
    FOREIGN = 1
    SURELY = 2
    MARKED = 3
    BARE = 4
    SYLLABIC = 5
    ENGLISH = 6
    JUDGED = 7
    ENDED = 8
    LETTERS = 9


@cache
def _english() -> frozenset[str]:
    return words_of("words_en.txt")


@cache
def _bare() -> frozenset[str]:
    return words_of("syllables_vi.txt") - _english()


@lru_cache(maxsize=30_000)
def _kind(word: str) -> int:
    if not word[0].isalpha():
        return WordKind.SILENT.value
    if not _LATIN.search(word):
        return WordKind.FOREIGN.value
    letters = set(word)
    if letters & _ONLY_VIETNAMESE:
        return WordKind.SURELY.value
    if letters & MARKED:
        return (WordKind.MARKED if _SYLLABLE.fullmatch(folded(word)) else WordKind.LETTERS).value
    return _unmarked_kind(word).value


def _unmarked_kind(word: str) -> WordKind:
    if word in _english():
        return WordKind.ENGLISH
    if word in _bare():
        return WordKind.BARE
    if _SYLLABLE.fullmatch(word):
        return WordKind.SYLLABIC
    if is_english(word):
        return WordKind.JUDGED
    return WordKind.ENDED if word.endswith(_SUFFIXES) else WordKind.LETTERS


def votes(words: Sequence[str]) -> Votes:
    """The votes of all words that are made of letters."""
    said = bytes(map(_kind, words))
    silent, foreign, surely, marked, bare, syllabic, english, judged, ended, _ = map(said.count, range(10))
    return Votes(
        marked=surely + 0.8 * marked,
        bare=bare + 0.3 * syllabic,
        english=english + 0.8 * judged + 0.25 * ended,
        latin=len(said) - silent - foreign,
        foreign=foreign,
        surely=surely,
    )


def identify(sentence: Sentence) -> tuple[int, float]:
    """Say the language of a sentence: how many words it has, and what share of them speaks for English."""
    count = votes(sentence.words)
    sentence.language, sentence.plain = _decided(count) or _by_lingua(sentence.text, count.latin)
    size = count.latin + count.foreign
    if sentence.language == MIXED:
        sentence.plain = count.marked == 0
        return size, count.english / max(count.english + count.marked + count.bare, 1.0)
    return size, 1.0 if sentence.language == ENGLISH else 0.0


def _decided(count: Votes) -> tuple[str, bool] | None:
    if count.latin + count.foreign == 0:
        return UNKNOWN, False
    if count.foreign > count.latin:
        return OTHER, False
    if count.marked:
        return _among_marked(count)
    vietnamese, english, latin = count.bare, count.english, count.latin
    if vietnamese >= 2 and english >= 2 and min(vietnamese, english) >= _MIXED_SHARE * latin:
        return MIXED, True
    if vietnamese >= 1.5 and vietnamese > 1.2 * english and vietnamese >= 0.4 * latin:
        return VIETNAMESE, True
    if english >= 0.3 * latin and english > vietnamese:
        return ENGLISH, False
    return None


def _among_marked(count: Votes) -> tuple[str, bool] | None:
    vietnamese = count.marked + count.bare
    if not count.surely and count.marked < 0.34 * count.latin:
        # One à or é among many words is as likely French or Portuguese.
        if count.english >= 3 and count.marked > 1.5:
            return MIXED, False
        return None if count.english < 0.3 * count.latin else (ENGLISH, False)
    if count.english > 3 * vietnamese and count.english >= 4:
        return ENGLISH, False
    if count.english >= 3 and count.english >= _MIXED_SHARE * (vietnamese + count.english):
        return MIXED, False
    return VIETNAMESE, False


def _by_lingua(text: str, words: int) -> tuple[str, bool]:
    if len(text) < LINGUA_CHARS_MIN or words < LINGUA_WORDS_MIN:
        return UNKNOWN, False
    found = detector().detect_language_of(text[:LINGUA_CHARS_MAX])
    if found is None:
        return UNKNOWN, False
    if found.name == "VIETNAMESE":
        return VIETNAMESE, not any(letter in MARKED for letter in text.lower())
    return (ENGLISH if found.name == "ENGLISH" else OTHER), False


@cache
def detector() -> LanguageDetector:
    """lingua's detector for the languages that are likely here, loaded once."""
    from lingua import Language, LanguageDetectorBuilder

    return (
        LanguageDetectorBuilder.from_languages(
            Language.VIETNAMESE,
            Language.ENGLISH,
            Language.INDONESIAN,
            Language.TAGALOG,
            Language.FRENCH,
            Language.SPANISH,
            Language.PORTUGUESE,
            Language.GERMAN,
        )
        .with_low_accuracy_mode()
        .build()
    )


def language_of(sentences: Sequence[Sentence], shares: Sequence[tuple[int, float]]) -> tuple[str, float]:
    """The language of a whole post and its share of the words, from what `identify` said of each sentence."""
    vietnamese = english = other = 0.0
    for sentence, (size, share) in zip(sentences, shares, strict=True):
        if sentence.language == OTHER:
            other += size
        elif sentence.language != UNKNOWN:
            english += size * share
            vietnamese += size * (1 - share)
    total = vietnamese + english + other
    if not total:
        return UNKNOWN, 0.0
    less, more = sorted((vietnamese, english))
    if less >= 2 and less >= _MIXED_SHARE * total and other <= more:
        return MIXED, round((less + more) / total, 3)
    most, language = max((vietnamese, VIETNAMESE), (english, ENGLISH), (other, OTHER))
    return language, round(most / total, 3)
