"""Texts that every store can keep: no NUL, and no half of a surrogate pair."""

from __future__ import annotations


def storable(text: str) -> str:
    """A text for people, with what cannot be stored replaced."""
    return text if is_storable(text) else text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def is_storable(text: str) -> bool:
    if "\x00" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
