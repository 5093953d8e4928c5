"""Word lists as files, so that people can read and extend them.

A line is `value: phrase, phrase, …`; `#` begins a comment. `(a|b|)` in a phrase stands for one of these. Vietnamese is
often typed without its marks, so a phrase is known in that form as well: a single word only if it ends in `~` (bare
`te` may be six words), a longer phrase unless it ends in `!`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from itertools import product
from typing import Generic, TypeVar

from headrace.errors import CallerError

T = TypeVar("T")
_VOWELS = {
    "a": "àáảãạăằắẳẵặâầấẩẫậ",
    "e": "èéẻẽẹêềếểễệ",
    "i": "ìíỉĩị",
    "o": "òóỏõọôồốổỗộơờớởỡợ",
    "u": "ùúủũụưừứửữự",
    "y": "ỳýỷỹỵ",
    "d": "đ",
}
_FOLDED = str.maketrans({marked: bare for bare, all_marked in _VOWELS.items() for marked in all_marked})
MARKED = frozenset("".join(_VOWELS.values()))
"""Every letter that bare text lacks."""
_CHOICE = re.compile(r"\(([^()]*)\)")
PHRASES_MAX = 20_000
_OTHERS = ("vaderSentiment", "lingua-language-detector")
"""Packages that bring word lists of their own."""


def folded(text: str) -> str:
    """Lower-case Vietnamese without its marks."""
    return text if text.isascii() else text.translate(_FOLDED)


def all_folded(words: Sequence[str]) -> list[str]:
    """Each word without its marks, in one go."""
    return folded("\n".join(words)).split("\n") if words else []


class Phrases(Generic[T]):
    """Finds known phrases in a list of words: the longest at each place, none overlapping another."""

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._values = dict(entries)
        longer: dict[str, dict[str, set[int]]] = {}
        for phrase in entries:
            first, *rest = phrase.split(" ")
            seconds = longer.setdefault(first, {})
            if rest:
                seconds.setdefault(rest[0], set()).add(len(rest) + 1)
        # First word, second word, and how long phrases that begin so are, longest first.
        self._longer = {
            first: {second: tuple(sorted(lengths, reverse=True)) for second, lengths in seconds.items()}
            for first, seconds in longer.items()
        }

    def find(self, words: Sequence[str]) -> list[tuple[int, int, T]]:
        """(first word, word behind the last, value), from left to right."""
        longer, values, behind = self._longer, self._values, 0
        found: list[tuple[int, int, T]] = []
        if longer.keys().isdisjoint(words):
            return found
        last = len(words) - 1
        for start in [index for index, word in enumerate(words) if word in longer]:
            if start < behind:
                continue
            word = words[start]
            lengths = longer[word].get(words[start + 1], ()) if start < last else ()
            for length in (*lengths, 1) if lengths else (1,):
                phrase = word if length == 1 else " ".join(words[start : start + length])
                if phrase in values:
                    behind = start + length
                    found.append((start, behind, values[phrase]))
                    break
        return found


@dataclass(frozen=True, slots=True)
class Lexicon(Generic[T]):
    """The same phrases twice: as written, and as typed without marks."""

    marked: Phrases[T]
    bare: Phrases[T]

    def find(self, words: Sequence[str], plain: bool) -> list[tuple[int, int, T]]:
        """What a sentence holds; `plain` words have no marks."""
        return (self.bare if plain else self.marked).find(words)


def lexicon(entries: Mapping[str, T]) -> Lexicon[T]:
    """Both forms of phrases that may carry the signs of the file format."""
    marked: dict[str, T] = {}
    bare: dict[str, T] = {}
    for written, value in entries.items():
        phrase = written.rstrip("~!")
        marked[phrase] = value
        flat = folded(phrase)
        if flat == phrase or written.endswith("~") or (" " in phrase and not written.endswith("!")):
            bare.setdefault(flat, value)
    return Lexicon(Phrases(marked), Phrases(bare))


@cache
def entries_of(name: str) -> dict[str, str]:
    """Phrase to value of a file that is shipped here."""
    return entries_in(_shipped(name), name)


def _shipped(name: str) -> str:
    return files(__package__).joinpath("data", name).read_text("utf-8")


@cache
def lists_digest() -> str:
    """Changes with any list that is shipped here, and with the packages that bring their own."""
    told = hashlib.blake2b("\n".join(f"{name}={version(name)}" for name in _OTHERS).encode(), digest_size=6)
    for file in sorted(files(__package__).joinpath("data").iterdir(), key=lambda file: file.name):
        content = file.read_bytes()
        told.update(f"\n{file.name} {len(content)}\n".encode() + content)
    return told.hexdigest()


def words_of(name: str) -> frozenset[str]:
    """All phrases of a file, whatever their value."""
    return frozenset(phrase.rstrip("~!") for phrase in entries_of(name))


@cache
def small_words(kind: str) -> frozenset[str]:
    """The words of one line of `small_words.txt`; unlike phrases with a value, a word may be in several."""
    for line in _shipped("small_words.txt").splitlines():
        name, _, words = line.partition(": ")
        if name == kind:
            return frozenset(words.split(", "))
    raise KeyError(kind)


def entries_in(text: str, name: str) -> dict[str, str]:
    """Phrase to value; a line without a value is refused with its number."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        said = line.split("#")[0].strip()
        if not said:
            continue
        value, colon, phrases = said.partition(":")
        if not colon or not value.strip():
            raise CallerError(f"{name}, line {number}: a line is `value: phrase, phrase`", said[:80])
        for phrase in phrases.split(","):
            for variant in _variants(phrase):
                found.setdefault(variant, value.strip())
        if len(found) > PHRASES_MAX:
            raise CallerError(f"{name} has more than {PHRASES_MAX} phrases", "make it shorter")
    return found


def _variants(phrase: str) -> Iterator[str]:
    parts = _CHOICE.split(phrase.strip().lower())
    choices = [part.split("|") if index % 2 else [part] for index, part in enumerate(parts)]
    for chosen in product(*choices):
        variant = " ".join("".join(chosen).split())
        if variant.rstrip("~!"):
            yield variant
