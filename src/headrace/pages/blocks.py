"""What a page is put together from besides tables and charts: sections, tiles, notes, terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pages.markup import Html, element, items, join, link, text
from headrace.pages.tones import SIGNS, check
from headrace.pages.words import Words


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page with a heading; `name` is where links within the page lead."""

    name: str
    title: str
    content: Html


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that stands out: its name, its value as text, what to add, and where it leads."""

    name: str
    value: object
    more: object = ""
    url: str = ""
    tone: str = ""


def tiles(entries: Iterable[Tile]) -> Html:
    """Figures side by side. One with an address is a link as a whole."""
    return element("dl", *map(_tile, entries), class_="tiles")


def notes(words: Words, entries: Sequence[object]) -> Html:
    """Remarks that concern the page as a whole; nothing if there are none."""
    if not entries:
        return Html()
    return element("div", items(entries), class_="notes", role="note", aria_label=words("pages.notes"))


def banner(words: object, tone: str = "warn") -> Html:
    """A sentence nobody may miss, above everything else."""
    return element("p", _sign(tone), " ", words, class_="banner")


def terms(entries: Mapping[str, object]) -> Html:
    """Words and what they mean."""
    pairs = (join(element("dt", name), element("dd", meaning)) for name, meaning in entries.items())
    return element("dl", *pairs, class_="terms")


def _sign(tone: str) -> Html:
    return element("span", SIGNS[check(tone)], class_=f"ink-{tone}", aria_hidden="true")


def _tile(tile: Tile) -> Html:
    value = link(tile.url, tile.value) if tile.url else text(tile.value)
    if tile.tone:
        value = join(_sign(tile.tone), " ", value)
    more = element("dd", tile.more, class_="more") if tile.more else ""
    return element("div", element("dt", tile.name), element("dd", value), more, class_="linked" if tile.url else None)
