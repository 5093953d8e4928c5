"""What colours mean, told by shape and pattern as well: nobody needs to see the difference between red and green.

A tone is a colour, a pattern for areas, a dash for lines and a sign for words. The colours keep apart for the common
kinds of colour blindness: blue against orange, never red against green.
"""

from __future__ import annotations

from headrace.pages.markup import Html, element, text

# The sign that stands before a word of this tone.
SIGNS = {"good": "●", "neutral": "○", "bad": "▲", "warn": "◆", "plain": "■", "other": "□"}
TONES = tuple(SIGNS)

# The patterns lie in the document once; their colours come from the style, so that dark pages have their own.
_MOTIFS = {
    "good": "",
    "neutral": '<circle cx="2" cy="2" r="1"/><circle cx="6" cy="6" r="1"/>',
    "bad": '<path d="M-2 2l4-4M0 8l8-8M6 10l4-4"/>',
    "warn": '<path d="M0 2h8M0 6h8"/>',
    "plain": "",
    "other": '<path d="M0 4h8M4 0v8"/>',
}
PATTERNS = Html(
    '<svg class="patterns" aria-hidden="true" focusable="false"><defs>'
    + "".join(
        f'<pattern id="tone-{tone}" class="on-{tone}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect width="8" height="8"/>{motif}</pattern>'
        for tone, motif in _MOTIFS.items()
    )
    + "</defs></svg>"
)


def check(tone: str) -> str:
    """The tone, if there is one of this name."""
    if tone not in SIGNS:
        raise ValueError(f"there is no tone {tone!r}; there are {', '.join(TONES)}")
    return tone


def mark(tone: str, word: object) -> Html:
    """A word with the sign of its tone before it."""
    sign = element("span", SIGNS[check(tone)], class_=f"sign ink-{tone}", aria_hidden="true")
    return element("span", sign, " ", text(word), class_="mark")


def swatch(tone: str) -> Html:
    """A small square in the colour and the pattern of a tone, for the key of a chart."""
    square = element("rect", class_=f"area-{check(tone)}", width="100%", height="100%")
    return element("svg", square, class_="swatch", aria_hidden="true")
