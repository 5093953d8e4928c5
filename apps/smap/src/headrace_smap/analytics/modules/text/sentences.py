"""Sentences and words, each word in the one spelling that the lists know.

`Đẹppp`, `đep̣` and `ĐẸP` are one word, `hoà` and `hòa` too. Emoji, old-fashioned smileys and the punctuation that ends
a thought are words of their own. Slang is written out in Vietnamese only, and never after a number (`200 k` is money)
nor where it would hide a comparison (`vs` between two names).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib.resources import files

from headrace_smap.analytics.modules.text.lexicons import folded, small_words
from headrace_smap.analytics.modules.text.normal_form import EMOJI, EMOJI_SEQUENCE, SKIN

SENTENCES_MAX = 60
"""What follows is one sentence; it bounds the work on a text of full stops."""
WORD_CHARS_MAX = 40
"""A longer run of letters is no word of any list."""
_BREAK = re.compile(r"(?<=[.!?…;])\s+|\n+")
_NUMBER = r"\d+(?:[.,/]\d+)*[^\W\d_]*"
_LETTERS = r"[^\W_]+(?:['’][^\W_]+)*"
_SMILEY = r"[:;=]['-]?[)(DPVO3/|\]\[*dpvo]{1,8}(?![^\W_])|<3|\^[_.-]?\^|>[.:]?<|-[_.]-"
# In the order of how often they occur, but for T_T, which would be two words.
_WORD = re.compile(rf"T[_.]T|{_NUMBER}|{_LETTERS}|[!?]+|…|[.,;:](?=\s|$)|{EMOJI_SEQUENCE}|{_SMILEY}")
_LETTERS_MOSTLY = "\u2000"
_EMOJI = re.compile(f"[{EMOJI}]")
_VARIATION = re.compile(f"[{SKIN}\ufe0f]")
_REPEATED = re.compile(r"([^\W\d_])\1{2,}")
_OLD_TONE = re.compile(r"o[àáảãạèéẻẽẹ]$|(?<!q)u[ỳýỷỹỵ]$")
_TONES = {
    first + marked: moved + second
    for first, second, second_marked, first_marked in (
        ("o", "a", "àáảãạ", "òóỏõọ"),
        ("o", "e", "èéẻẽẹ", "òóỏõọ"),
        ("u", "y", "ỳýỷỹỵ", "ùúủũụ"),
    )
    for marked, moved in zip(second_marked, first_marked, strict=True)
}


def sentences(text: str) -> list[str]:
    """The text in sentences, as written."""
    return [part for part in _BREAK.split(text, SENTENCES_MAX - 1) if part and not part.isspace()]


def words(sentence: str) -> list[str]:
    """The words of a sentence in their one spelling, slang untouched."""
    return [_spelled(word[:WORD_CHARS_MAX]) for word in _WORD.findall(sentence)]


def is_emoji(word: str) -> bool:
    """Whether it is a picture."""
    return word[0] > _LETTERS_MOSTLY and _EMOJI.match(word) is not None


@lru_cache(maxsize=30_000)
def _spelled(word: str) -> str:
    if _EMOJI.match(word):
        return _VARIATION.sub("", word)
    word = word.lower().replace("’", "'")
    if not word[0].isalpha():
        return word[0] if word[0] in "!?" else word
    word = _REPEATED.sub(r"\1", word)
    tone = _OLD_TONE.search(word)
    return word[: tone.start()] + _TONES[tone[0]] if tone else word


@cache
def slang() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """What stands for what: with marks, and for sentences without them."""
    marked: dict[str, list[str]] = {}
    for line in files(__package__).joinpath("data", "teencode.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            typed, meant = line.split("\t")
            marked[typed] = meant.split(" ")
    bare = {typed: [folded(word) for word in meant] for typed, meant in marked.items() if typed.isascii()}
    return marked, bare


def written_out(found: list[str], plain: bool) -> list[str]:
    """The words of a Vietnamese sentence with slang replaced."""
    table = slang()[plain]
    result: list[str] = []
    for index, word in enumerate(found):
        meant = table.get(word)
        if meant is None:
            # No Vietnamese syllable ends in a double letter: đẹpp.
            result.append(word[:-1] if len(word) > 3 and word[-1] == word[-2] and not word.isascii() else word)
        elif index and found[index - 1][0].isdigit():
            result.append(word)
        else:
            following = found[index + 1] if index + 1 < len(found) else ""
            result.extend(_in_context(word, meant, result[-1] if result else "", following))
    return result


def _in_context(word: str, meant: list[str], before: str, following: str) -> list[str]:
    if word == "vs" and following[:1].isalnum() and following not in small_words("hearers"):
        return [word]
    if word == "bt" and before not in small_words("knowing"):
        return ["bình", "thường"] if meant[0] != "biet" else ["binh", "thuong"]
    return meant
