"""What is in a text besides words: addresses, names, numbers to call.

They are taken out before words are looked up, since `lazada.vn/lua-dao` says nothing about mood. Patterns run only
where their first sign occurs, and every repetition is bounded.
"""

from __future__ import annotations

import re

from headrace_smap.analytics.modules.drafts import Draft

FOUND_MAX = 50
"""So many of a kind are kept."""
_ENDINGS = "com|vn|net|org|info|shop|store|xyz|top|club|online|site|io|me|ly|cc|app|vip|win|bet|asia|edu|gov|tv|co"
_URL = re.compile(
    r"(?:https?://|www\.)[^\s<>\"']{1,1000}"
    rf"|(?<![\w@.-])[a-z0-9-]{{1,40}}(?:\.[a-z0-9-]{{1,40}}){{0,2}}\.(?:{_ENDINGS})(?![\w-])(?:/[^\s<>\"']{{0,500}})?",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_MENTION = re.compile(r"(?<![\w@])@([\w.]{1,50})")
_HASHTAG = re.compile(r"[#＃](\w{1,100})")
_PHONE = re.compile(
    r"(?<![\w.,])(?:\+?84|0)[ .-]?[1-9](?:[ .-]?\d){8}(?![\w])|(?<![\w.,])1[89]00(?:[ .-]?\d){4,6}(?![\w])"
)
_DOTTED = re.compile(r"\.[A-Za-z]")
_DIGITS = re.compile(r"\D+")


def extract(draft: Draft, text: str) -> str:
    """Fill the lists of the draft, and return the text that is left: hashtags stay, as words."""
    if "://" in text or _DOTTED.search(text):
        if "@" in text:
            draft.emails = _all(_EMAIL, text)
            text = _EMAIL.sub(" ", text)
        draft.urls = [url.rstrip(".,;:!?)") for url in _all(_URL, text)]
        if draft.urls:
            text = _URL.sub(" ", text)
    if "@" in text:
        draft.mentions = _all(_MENTION, text)
        text = _MENTION.sub(" ", text)
    if "#" in text or "＃" in text:
        draft.hashtags = [tag for tag in _all(_HASHTAG, text) if not tag.isdigit()]
        text = _HASHTAG.sub(r" \1 ", text)
    if "0" in text or "84" in text:
        phones = _all(_PHONE, text)
        if phones:
            draft.phones = list(dict.fromkeys(_DIGITS.sub("", phone) for phone in phones))
            text = _PHONE.sub(" ", text)
    return text


def _all(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(match.strip() for match in pattern.findall(text)))[:FOUND_MAX]
