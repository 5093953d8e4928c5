"""Which of a project's keywords a post names, and which phrases it is made of.

A keyword is found however people type it: another case, without marks, in one word, as or inside a hashtag.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from headrace_smap.analytics.modules.drafts import Draft, Sentence
from headrace_smap.analytics.modules.text.lexicons import Phrases, all_folded, entries_of, folded, words_of
from headrace_smap.analytics.modules.text.normal_form import cleaned
from headrace_smap.analytics.modules.text.sentences import words

PHRASES_MAX = 8
PHRASE_WORDS_MAX = 3
KEYWORDS_MAX = 200
_INSIDE_CHARS_MIN = 3
_MARKED_CHARS_MAX = 3
_LONE_CHARS_MIN = 4
_BEFORE_DIGITS = re.compile(r"(?<=[a-z])(?=[0-9])")


class Keywords:
    """The keywords of one project, ready to be looked for."""

    def __init__(self, keywords: tuple[str, ...]) -> None:
        forms: dict[str, str] = {}
        exact: dict[str, str] = {}
        self._inside: dict[str, str] = {}
        for keyword in keywords[:KEYWORDS_MAX]:
            found = words(cleaned(keyword.lstrip("#@")))
            if not found:
                continue
            bare = all_folded(found)
            joined = "".join(bare)
            if len(joined) >= _INSIDE_CHARS_MIN:
                self._inside.setdefault(joined, keyword)
            if len(found) == 1 and bare != found and len(joined) <= _MARKED_CHARS_MAX:
                # A short word with marks (`mũ`) would be found in many posts without them.
                exact.setdefault(found[0], keyword)
                continue
            for form in (" ".join(bare), joined, _BEFORE_DIGITS.sub(" ", joined)):
                forms.setdefault(form, keyword)
        self._forms, self._exact = Phrases(_with_those_within(forms)), Phrases(exact)
        self._order = {keyword: index for index, keyword in enumerate(keywords)}

    def find(self, draft: Draft) -> list[str]:
        """Those present, as the project spells them and in its order."""
        present: set[str] = set()
        for sentence in draft.sentences:
            bare = sentence.words if sentence.plain else all_folded(sentence.words)
            for _, _, named in self._forms.find(bare):
                present |= named
            present.update(keyword for _, _, keyword in self._exact.find(sentence.words))
        for tag in draft.hashtags:
            flat = folded(tag.lower()).replace("_", "")
            present.update(keyword for inside, keyword in self._inside.items() if inside in flat)
        return sorted(present, key=self._order.__getitem__)


def _with_those_within(forms: dict[str, str]) -> dict[str, frozenset[str]]:
    """Only the longest phrase of a place is found, so each one says which others it holds."""
    padded = {f" {form} ": keyword for form, keyword in forms.items()}
    return {long.strip(): frozenset(keyword for form, keyword in padded.items() if form in long) for long in padded}


@lru_cache(maxsize=1_000)
def keywords_of(keywords: tuple[str, ...]) -> Keywords:
    """A batch holds posts of few projects: each set of keywords is made ready once."""
    return Keywords(keywords)


@cache
def _stops() -> tuple[frozenset[str], frozenset[str]]:
    """Words that end a phrase: small ones, and those that say how something is rather than what."""
    judging = [phrase for phrase in entries_of("sentiment_vi.txt") if " " not in phrase]
    marked = words_of("stopwords.txt") | {word.rstrip("~!") for word in judging}
    bare = {word.rstrip("~") for word in judging if word.endswith("~")} | words_of("stopwords.txt")
    return frozenset(marked), frozenset(map(folded, bare))


def phrases(sentences: list[Sentence]) -> list[str]:
    """Runs of words between stop words and punctuation, most frequent first: what a text is about."""
    counted: dict[str, float] = {}
    for sentence in sentences:
        stops = _stops()[sentence.plain]
        run: list[str] = []
        for word in sentence.words:
            if word not in stops and word[0].isalnum():
                run.append(word)
            elif run:
                _keep(run, counted)
                run = []
        _keep(run, counted)
    ranked = sorted(counted, key=lambda phrase: (-counted[phrase], phrase))
    return ranked[:PHRASES_MAX]


def _keep(run: list[str], counted: dict[str, float]) -> None:
    if not run or (len(run) == 1 and len(run[0]) < _LONE_CHARS_MIN):
        return
    phrase = " ".join(run[:PHRASE_WORDS_MAX])
    if not phrase.replace(" ", "").isdigit():
        counted[phrase] = counted.get(phrase, 0.0) + (1.0 if len(run) > 1 else 0.5)
