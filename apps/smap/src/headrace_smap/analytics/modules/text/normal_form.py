"""Text as it arrives becomes text that can be compared: one code per letter, nothing invisible, no markup.

Order matters. Long runs of combining marks go first, because sorting them is quadratic; entities become characters
before invisible ones are removed, so that none can hide. Every pattern is linear or bounded by a small number.
"""

from __future__ import annotations

import html
import re
import unicodedata

MARKS_MAX = 3
"""So many combining marks may follow a letter; Vietnamese needs two."""
_MARKS = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARK_RUN = re.compile(f"([{_MARKS}]{{{MARKS_MAX}}})[{_MARKS}]+")
# Thousands of digits are no character, and Python refuses to read them as a number.
_HUGE_ENTITY = re.compile(r"&#[xX]?[0-9a-fA-F]{8,};?")
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,300}>")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufdd0-\ufdef\ufffd"
    "\U000e0000-\U000e0fff\U000f0000-\U0010ffff\ue000-\uf8ff]"
)
EMOJI = (
    "\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff\u2600-\u27bf\u2b00-\u2bff\u231a-\u23ff"
    "\u25aa-\u25fe\u2190-\u21ff\u203c\u2049\u3030\u303d\u3297\u3299\U0001f000-\U0001f12f\U0001f14a-\U0001f2ff"
)
SKIN = "\U0001f3fb-\U0001f3ff"
EMOJI_SEQUENCE = f"[{EMOJI}][\ufe0f{SKIN}]{{0,2}}(?:\u200d[{EMOJI}][\ufe0f{SKIN}]{{0,2}}){{0,7}}"
"""One picture: a base with its variation and skin tone, and others joined to it."""
_LOOSE_JOINER = re.compile(f"(?<![{EMOJI}{SKIN}\ufe0f])\u200d|\u200d(?![{EMOJI}])")
# Most texts hold nothing but printable ASCII without & and <, composed letters, common punctuation and pictures.
_UNUSUAL = re.compile(f"[^\n !-%'-;=-~À-ʯḀ-ỹ‐-‛“-‟•…{EMOJI}{SKIN}\ufe0f]")
_STYLED = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff\u2460-\u24ff\U0001f130-\U0001f149\ufb00-\ufb06]")
_UNEVEN = re.compile(r"[^\S\n ]|  ")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*")


def cleaned(text: str) -> str:
    """The readable text: composed, without markup and invisible characters, spaces and line breaks single."""
    if not _UNUSUAL.search(text):
        return _spaced(text)
    text = _MARK_RUN.sub(r"\1", text)
    if "&" in text:
        text = _MARK_RUN.sub(r"\1", html.unescape(_HUGE_ENTITY.sub("", text)))
    if "<" in text:
        text = _TAG.sub(" ", text)
    text = _INVISIBLE.sub("", _storable(text))
    if "\u200d" in text:
        text = _LOOSE_JOINER.sub("", text)
    text = unicodedata.normalize("NFC", _STYLED.sub(_unstyled, text))
    return _spaced(text)


def _storable(text: str) -> str:
    # An entity may have become half a surrogate pair or a carriage return.
    return re.sub("[\ud800-\udfff]", "", text.replace("\r", "\n").replace("\x85", "\n").replace("\u2028", "\n"))


def _unstyled(match: re.Match[str]) -> str:
    """Bold, script and full-width letters are letters: people write them to stand out, or to slip past a filter."""
    return unicodedata.normalize("NFKC", match[0])


def _spaced(text: str) -> str:
    if _UNEVEN.search(text):
        text = _SPACES.sub(" ", text)
    return (_LINES.sub("\n", text) if "\n" in text else text).strip()
