"""Charts as inline SVG that needs no script, each with its numbers in a table.

Places are shares of the width and the height, so that a chart fits any screen and its text keeps its size. What is
told by colour is told by pattern, dash or sign as well (`tones`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.pages.filters import TableColumn
from headrace.pages.markup import Html, element, is_followed, join, link
from headrace.pages.tables import Listing, table
from headrace.pages.tones import SIGNS, check, swatch
from headrace.pages.words import Words

LABELS_MAX = 12
# More points than these run into each other.
SIGNS_MAX = 40
_TICKS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10)
_SIZES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Series:
    """What is counted, and its tone."""

    name: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One bar, one column or one place on the axis: a value per series (None where it is not known), where its label
    leads and where each value does. `short` is its label on an axis."""

    label: str
    values: Sequence[float | None]
    url: str = ""
    urls: Sequence[str] = ()
    short: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """`label` is what the rows are: Platform, Day. `name` tells the charts of a page apart."""

    name: str
    caption: str
    label: str
    series: Sequence[Series]
    rows: Sequence[ChartRow]
    digits: int = field(default=0)


def bars(words: Words, chart: Chart, whole: bool = False) -> Html:
    """A bar per row, with a part per series; the numbers stand beside it. With `whole` each bar takes the full width
    and the shares stand there as well."""
    if not chart.rows:
        return Html()
    several = len(chart.series) > 1
    most = max(_total(row) for row in chart.rows) or 1
    heads = [element("th", each.name, scope="col", class_="n") for each in chart.series]
    if several:
        heads.append(element("th", words("pages.total"), scope="col", class_="n"))
    head = element("tr", element("th", chart.label, scope="col"), element("td"), *heads)
    lines = [_bar(words, chart, row, None if whole else most) for row in chart.rows]
    grid = element("table", element("thead", head), element("tbody", *lines), aria_label=chart.caption)
    caption = element("figcaption", chart.caption)
    return element("figure", caption, _key(chart) if several else "", grid, class_="chart bars")


def columns(words: Words, chart: Chart) -> Html:
    """A column per row, with a part per series, from left to right."""
    if not chart.rows:
        return Html()
    top = _top(max(_total(row) for row in chart.rows), whole=not chart.digits)
    step = 100 / len(chart.rows)
    drawn = []
    for place, row in enumerate(chart.rows):
        parts, height = [], 0.0
        for series, value in zip(chart.series, row.values, strict=True):
            share = 100 * (value or 0) / top
            height += share
            if share:
                title = element("title", f"{row.label}: {words.number(value, chart.digits)} {series.name}")
                parts.append(
                    element("rect", title, class_=f"area-{check(series.tone)}", x=_share(place * step + step * 0.08),
                            y=_share(100 - height), width=_share(step * 0.84), height=_share(share))
                )  # fmt: skip
        said = f"{row.label}: {words.number(_total(row), chart.digits)}"
        followed = parts and is_followed(row.url)
        drawn.append(element("a", *parts, href=row.url, aria_label=said) if followed else join(*parts))
    return _framed(words, chart, top, drawn)


def lines(words: Words, chart: Chart) -> Html:
    """A line per series; where a value is not known there is a gap."""
    known = [value for row in chart.rows for value in row.values if value is not None]
    if not known:
        return Html()
    top = _top(max(known), whole=not chart.digits)
    width = max(len(chart.rows), 1)
    paths, signs = [], []
    for place, series in enumerate(chart.series):
        values = [row.values[place] for row in chart.rows]
        tone = check(series.tone)
        paths.append(element("path", class_=f"line-{tone}", d=_path(values, top)))
        shown = len(values) <= SIGNS_MAX
        for spot, value in enumerate(values):
            if value is not None and (shown or spot == len(values) - 1):
                title = element("title", f"{chart.rows[spot].label}: {words.number(value, chart.digits)} {series.name}")
                signs.append(
                    element("text", SIGNS[tone], title, class_=f"point ink-{tone}",
                            x=_share((spot + 0.5) * 100 / width), y=_share(100 - 100 * value / top))
                )  # fmt: skip
    stretched = element("svg", *paths, viewBox=f"0 0 {width} 100", preserveAspectRatio="none", width="100%",
                        height="100%")  # fmt: skip
    return _framed(words, chart, top, [stretched, *signs])


def sparkline(values: Sequence[float], label: str, tone: str = "plain") -> Html:
    """Columns as high as a line of text, for a cell of a table."""
    most = max(values, default=0) or 1
    drawn = "".join(
        f"M{place} 20v-{max(20 * value / most, 1.5):.3g}h.8V20z" for place, value in enumerate(values) if value
    )
    return element(
        "svg", element("path", class_=f"flat-{check(tone)}", d=drawn), class_="sparkline", role="img",
        viewBox=f"0 0 {len(values)} 20", preserveAspectRatio="none", aria_label=label,
    )  # fmt: skip


def _bar(words: Words, chart: Chart, row: ChartRow, most: float | None) -> Html:
    parts, cells, left = [], [], 0.0
    urls = [*row.urls, *[""] * (len(row.values) - len(row.urls))]
    for series, value, url in zip(chart.series, row.values, urls, strict=True):
        share = (value or 0) / (most or _total(row) or 1)
        width = 100 * share
        number = words.number(value, chart.digits) + (f" ({words.percent(share, 0)})" if most is None else "")
        if width:
            title = element("title", f"{row.label}: {number} {series.name}")
            parts.append(
                element("rect", title, class_=f"area-{check(series.tone)}", x=_share(left), width=_share(width),
                        height="100%")
            )  # fmt: skip
        left += width
        cells.append(element("td", link(url, number) if url else number, class_="n", data_l=series.name))
    if len(chart.series) > 1:
        total = words.number(_total(row), chart.digits)
        cells.append(element("td", total, class_="n total", data_l=words("pages.total")))
    picture = element("svg", *parts, class_="bar", aria_hidden="true")
    return element("tr", element("th", _label(row), scope="row"), element("td", picture, class_="drawn"), *cells)


def _label(row: ChartRow) -> object:
    return link(row.url, row.label) if row.url else row.label


def _framed(words: Words, chart: Chart, top: float, parts: Sequence[Html]) -> Html:
    """The drawing with its axes, its key, and its numbers for those who want them or cannot see it."""
    ticks = _ticks(top, whole=not chart.digits)
    numbers = [element("text", _tick(words, tick), x="100%", y=_share(100 - 100 * tick / top)) for tick in ticks]
    grid = [element("line", x1="0", x2="100%", y1=place, y2=place) for tick in ticks
            for place in [_share(100 - 100 * tick / top)]]  # fmt: skip
    # Nothing within a picture can be followed.
    role = "group" if any(row.url for row in chart.rows) else "img"
    drawn = element("svg", *grid, *parts, *_labels(chart), class_="plot", role=role, aria_label=chart.caption)
    axis = element("svg", *numbers, class_="axis", aria_hidden="true")
    listing = Listing(
        f"{chart.name}-numbers",
        chart.caption,
        [TableColumn(chart.label), *(TableColumn(series.name, number=True) for series in chart.series)],
        [[_label(row), *(words.number(value, chart.digits) for value in row.values)] for row in chart.rows],
        searched=False,
    )
    details = element("details", element("summary", words("pages.numbers")), table(words, listing))
    return element(
        "figure",
        element("figcaption", chart.caption),
        _key(chart) if len(chart.series) > 1 else "",
        element("div", axis, drawn, class_="framed"),
        details,
        class_="chart",
    )


def _labels(chart: Chart) -> Iterator[Html]:
    """So many labels as have room; every second one goes on a narrow screen."""
    step = -(-len(chart.rows) // LABELS_MAX)
    for number, place in enumerate(range(0, len(chart.rows), step)):
        row = chart.rows[place]
        x = _share((place + 0.5) * 100 / len(chart.rows))
        kind = "label" if number % 2 == 0 else "label second"
        yield element("text", row.short or row.label, class_=kind, x=x, y="100%", dy="1.4em")


def _key(chart: Chart) -> Html:
    return element(
        "ul", *(element("li", swatch(series.tone), join(series.name)) for series in chart.series), class_="key"
    )


def _path(values: Sequence[float | None], top: float) -> str:
    pieces, pen = [], "M"
    for spot, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        pieces.append(f"{pen}{spot + 0.5:g} {100 - 100 * value / top:.4g}")
        pen = "L"
    return "".join(pieces)


def _total(row: ChartRow) -> float:
    return sum(value or 0 for value in row.values)


def _top(most: float, whole: bool) -> float:
    """The end of the axis: a round number not far above the highest value."""
    if most <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(most))
    found = next(tick * size for tick in _TICKS if tick * size >= most * 0.999999)
    return float(math.ceil(found)) if whole else max(found, 1.0) if most >= 1 else found


def _ticks(top: float, whole: bool) -> list[float]:
    """The numbers of an axis; where things are counted there are no halves of them."""
    # A step that its label can tell: 1,250 would be "1.2 k".
    least = next((size / 10 for size, _ in _SIZES if top >= size), 1.0)
    parts = next((parts for parts in (4, 5, 2) if not whole or (top / parts) % least == 0), 1)
    return [top * place / parts for place in range(parts + 1)]


def _tick(words: Words, value: float) -> str:
    for size, sign in _SIZES:
        if value >= size:
            return f"{words.number(value / size, 0 if (value / size).is_integer() else 1)} {sign}"
    return words.number(value, 0 if float(value).is_integer() else 2 if value < 1 else 1)


def _share(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"
