"""Markup that is safe by its type: whatever is not `Html` is escaped where it enters a page.

Attributes are escaped as well. There is no way to give an element a style or an event of its own: the policy of a page
would refuse both.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import urlsplit

# Joiners are invisible and still part of words and of emoji; a space that does not break stays one.
_JOINERS = "\u200c\u200d\u00a0"
# Phones and word processors leave these between letters; there is nothing to see, and nothing is lost without them.
_UNSEEN = "\u00ad\u200b\u200e\u200f\u2060\ufeff"
_VOID = frozenset({"br", "hr", "input", "link", "meta", "path", "rect", "line", "circle"})
_REFUSED = ("style", "on", "srcdoc")


class Html(str):
    """Text that is markup already; everything else is escaped."""

    __slots__ = ()


def plain(text: str, chars_max: int = 10_000) -> str:
    """Text from strangers on one line: nothing in it steers a terminal or turns the direction of writing. A break of
    the line is a space."""
    if len(text) > chars_max:
        text = f"{text[: chars_max - 1]}…"
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(letter: str) -> str:
    if letter.isprintable() or letter in _JOINERS:
        return letter
    if letter.isspace():
        return " "
    return "" if letter in _UNSEEN else "�"


def text(value: object) -> Html:
    """A value as markup: `Html` as it is, None as nothing, everything else as escaped text."""
    if isinstance(value, Html):
        return value
    return Html("" if value is None else escape(plain(str(value))))


def join(*parts: object, between: str = "") -> Html:
    """Parts one after the other, each escaped unless it is markup; empty ones are left out."""
    return Html(escape(between).join(filled for part in parts if (filled := text(part))))


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """One element. An attribute that is None or False is left out, True has no value; `class_` is `class`, and
    `aria_label` is `aria-label`."""
    opening = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID and not children:
        return Html(f"<{name}{opening}/>" if name in ("path", "rect", "line", "circle") else f"<{name}{opening}>")
    return Html(f"<{name}{opening}>{''.join(map(text, children))}</{name}>")


def link(url: str, *words: object) -> Html:
    """A link to the web or within our own pages; to anywhere else only its words: anybody may have written it."""
    if not is_followed(url):
        return join(*words)
    foreign = bool(urlsplit(url).netloc)
    return element("a", *words, href=url, rel="noopener noreferrer nofollow" if foreign else None)


def is_followed(url: str) -> bool:
    """Whether an address leads to the web or to a place of our own, and not to a script or to a file."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme or parts.netloc:
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    # A browser takes `///host` and `\\host` for another host.
    return bool(url) and url.isprintable() and not url.startswith("//") and "\\" not in url


def paragraphs(*lines: object) -> Html:
    """Each line a paragraph."""
    return join(*(element("p", line) for line in lines if line))


def items(entries: Iterable[object]) -> Html:
    """A list with bullets."""
    return element("ul", *(element("li", entry) for entry in entries))


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-")
    if name.startswith(_REFUSED):
        raise ValueError(f"a page refuses the attribute {name!r}")
    if value is None or value is False:
        return ""
    return f" {name}" if value is True else f' {name}="{escape(plain(str(value)))}"'
