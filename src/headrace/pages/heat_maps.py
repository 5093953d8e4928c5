"""Heat-maps: a row per thing, a narrow column per day (or whatever the columns are), one letter per cell.

A row is one picture, stretched to the width of its column, with a unit per letter. States differ in shape as well as in
colour: one takes the full height, others the upper or the lower half. A blank is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.pages.filters import TableColumn
from headrace.pages.markup import Html, element
from headrace.pages.tables import Listing, table
from headrace.pages.tones import check
from headrace.pages.words import Words

# So many marks have a text of their own under the pointer; a page with more says it per row only.
TITLES_MAX = 5_000
# Where a shape begins and how high it is, of ten.
SHAPES = {"ground": (0, 10), "full": (0, 10), "upper": (0, 5), "lower": (5, 5)}
LABELS_MAX = 13


@dataclass(frozen=True, slots=True)
class HeatMark:
    """What a letter means: its word, tone and shape. `ground` is the usual state, pale beneath the others."""

    letter: str
    word: str
    tone: str
    shape: str

    def __post_init__(self) -> None:
        check(self.tone)
        if self.shape not in SHAPES or len(self.letter) != 1 or self.letter == " ":
            raise ValueError(f"a mark needs one letter and a shape out of {', '.join(SHAPES)}")


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A row: its name, a letter per column, the row in words, and a figure beside it."""

    name: str
    cells: str
    about: str
    figure: str = ""


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`columns` are the names of the columns, `ticks` the labels above some of them by their place; `heading` names the
    rows and `figures` the figure beside each."""

    name: str
    caption: str
    marks: Sequence[HeatMark]
    columns: Sequence[str]
    ticks: Mapping[int, str]
    heading: str
    figures: str


def heat_map(words: Words, chart: HeatMap, rows: Iterable[HeatRow]) -> Html:
    """The key and the rows, as a table that can be searched."""
    strips = _Strips(chart)
    heads = [
        TableColumn(chart.heading),
        TableColumn(_ticks(chart), sorts=False),
        TableColumn(chart.figures, number=True),
    ]
    cells = [(row.name, strips.strip(row), row.figure) for row in rows]
    listing = Listing(chart.name, chart.caption, heads, cells, "heat")
    key = element("ul", *map(_entry, chart.marks), class_="key")
    return Html(key + (table(words, listing) if cells else ""))


def runs(cells: str, letters: str) -> list[tuple[int, int]]:
    """Where any of these letters stand without a break: start, and the place after the end."""
    found, start = [], None
    for place, cell in enumerate(cells):
        if cell in letters:
            start = place if start is None else start
        elif start is not None:
            found.append((start, place))
            start = None
    return found if start is None else [*found, (start, len(cells))]


class _Strips:
    """Makes the rows of one map and keeps the number of its texts within bounds."""

    def __init__(self, chart: HeatMap) -> None:
        self._chart = chart
        self._titles = 0
        self._ground = "".join(mark.letter for mark in chart.marks if mark.shape != "full")

    def strip(self, row: HeatRow) -> Html:
        parts = [f'<path class="ground" d="{_line(runs(row.cells, self._ground), 5)}"/>']
        for mark in self._chart.marks:
            found = runs(row.cells, mark.letter) if mark.shape != "ground" else []
            self._titles += len(found)
            if found:
                parts += self._marks(mark, found)
        return element(
            "svg", Html("".join(parts)), class_="strip", viewBox=f"0 0 {len(row.cells)} 10",
            preserveAspectRatio="none", role="img", aria_label=f"{row.name}: {row.about}",
        )  # fmt: skip

    def _marks(self, mark: HeatMark, found: Sequence[tuple[int, int]]) -> Iterable[str]:
        top, height = SHAPES[mark.shape]
        if self._titles > TITLES_MAX:
            yield f'<path class="thin-{mark.tone} h{height}" d="{_line(found, top + height / 2)}"/>'
            return
        for start, end in found:
            box = f"M{start} {top}h{end - start}v{height}h-{end - start}z"
            yield element("path", element("title", self._title(mark, start, end)), class_=f"flat-{mark.tone}", d=box)

    def _title(self, mark: HeatMark, start: int, end: int) -> str:
        first, last = self._chart.columns[start], self._chart.columns[end - 1]
        return f"{first}: {mark.word}" if end - start == 1 else f"{first} … {last}: {mark.word} ({end - start})"


def _ticks(chart: HeatMap) -> Html:
    """Labels above the strips, placed by share of the width."""
    places = sorted(chart.ticks)
    step = max(1, -(-len(places) // LABELS_MAX))
    labels = (
        element("text", chart.ticks[place], class_="second" if number % 2 else None, y="1em",
                x=f"{100 * place / len(chart.columns):.2f}%")
        for number, place in enumerate(places[::step])
    )  # fmt: skip
    return element("svg", *labels, class_="ticks", role="img", aria_label=chart.caption)


def _entry(mark: HeatMark) -> Html:
    top, height = SHAPES[mark.shape]
    drawn = (
        "" if mark.shape == "ground" else element("path", class_=f"flat-{mark.tone}", d=f"M0 {top}h10v{height}h-10z")
    )
    ground = element("path", class_="ground", d="M0 5h10")
    return element("li", element("svg", ground, drawn, class_="swatch", viewBox="0 0 10 10", aria_hidden="true"),
                   mark.word)  # fmt: skip


def _line(found: Sequence[tuple[int, int]], middle: float) -> str:
    """Runs as one broken line, as thick as the strip is high: half the text of boxes."""
    pieces: list[str] = []
    pen = 0
    for start, end in found:
        pieces.append(f"m{start - pen} 0h{end - start}" if pieces else f"M{start} {middle:g}h{end - start}")
        pen = end
    return "".join(pieces)
