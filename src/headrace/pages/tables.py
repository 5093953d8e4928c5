"""Tables that are read without a script, and filtered and sorted with one.

On a phone every row becomes a card, with the names of the columns beside the values: nothing is cut and nothing scrolls
sideways. Rows beyond the first hundred stand behind a line that opens; the script takes them in and shows a hundred at
a time. A filter is in the address of the page, so `filter_url` leads from a tile or a bar to the rows it counts.

Where there are too many rows for a page a service chooses them (`ServedRows`): the form asks it, with a script or
without one, by the same addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from html import escape
from urllib.parse import urlencode

from headrace.pages.blocks import Section
from headrace.pages.filters import FilterControls, TableColumn
from headrace.pages.markup import Html, element, link, text
from headrace.pages.words import VIETNAMESE, Words

ROWS_OPEN = 100
# Fewer rows are overlooked at a glance.
SEARCHED_FROM = 12
# A table with more columns becomes cards on a tablet already; a wide one takes the room of three.
COLUMNS_MANY = 8


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, and what it is sorted and filtered by: a number, a day, or any of several words."""

    shown: object
    values: Sequence[str | float] = ()


@dataclass(frozen=True, slots=True)
class Listing:
    """A table: `name` is its name in addresses. The first cell of a row is its heading. A cell is text, a number, a
    day, `Html`, a `Cell`, or None. If it is long it can be searched, unless `searched` is False."""

    name: str
    caption: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[object]]
    kind: str = ""
    searched: bool = True


def table_section(words: Words, listing: Listing) -> Section:
    """A section that is one table, under the table's own name and caption."""
    return Section(listing.name, listing.caption, table(words, listing))


@dataclass(frozen=True, slots=True)
class ServedRows:
    """What a service chose the rows of a table by: the filters it was asked for, by key; how many rows match, and where
    among them those of this page begin. `orders` are the orders it offers, `kept` what else is in the address."""

    filters: Mapping[str, str]
    count: int
    first: int = 0
    orders: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    page: int = 1
    pages: int = 1


def filter_url(listing: str, **values: str) -> str:
    """The address of this page with a table filtered: `filter_url("posts", sentiment="negative")`."""
    return f"?{urlencode({f'{listing}.{key}': value for key, value in values.items()})}#{listing}"


def served_table(words: Words, listing: Listing, served: ServedRows) -> Html:
    """A table whose rows a service filters, sorts and hands out page by page. Choices are those of the columns."""
    # To sort the rows of one page would pass for sorting them all.
    fixed = [replace(column, sorts=False) for column in listing.columns]
    region = _region(words, replace(listing, columns=fixed), listing.caption, listing.rows)
    answer = element("div", region, _paging(words, listing, served), class_="answer")
    return element(
        "div",
        _served_filters(words, listing, served),
        answer,
        class_=_kind(listing),
        data_table=listing.name,
        data_served=True,
    )


def table(words: Words, listing: Listing) -> Html:
    """The table with what belongs to it."""
    opened, rest = listing.rows[:ROWS_OPEN], listing.rows[ROWS_OPEN:]
    parts = [_filters(words, listing), _region(words, listing, listing.caption, opened)]
    if rest:
        caption = words("pages.continued", name=listing.caption)
        summary = element("summary", words("pages.rest", count=len(rest)))
        parts.append(element("details", summary, _region(words, listing, caption, rest), class_="rest"))
    return element(
        "div",
        *parts,
        class_=_kind(listing),
        data_table=listing.name,
        data_shown=words.template("pages.shown"),
        data_none=words("pages.none"),
        data_more=words.template("pages.more"),
    )


def _kind(listing: Listing) -> str:
    room = sum(3 if column.wide else 1 for column in listing.columns)
    many = "many" if room > COLUMNS_MANY else "few"
    return f"listing {many} {listing.kind}".strip()


def _region(words: Words, listing: Listing, caption: str, rows: Iterable[Sequence[object]]) -> Html:
    heads = "".join(_heading(column) for column in listing.columns)
    labels = ["" if isinstance(each.title, Html) else f' data-l="{escape(each.title)}"' for each in listing.columns]
    classes = [_class(column) for column in listing.columns]
    lines = []
    for row in rows:
        # End tags of cells may be left out, and there are thousands of them.
        cells = [_cell(words, value) for value in row]
        rest = "".join(
            f"<td{kind}{label if shown else ''}{value}>{shown}"
            for kind, label, (value, shown) in zip(classes[1:], labels[1:], cells[1:], strict=True)
        )
        lines.append(f"<tr><th scope=row{classes[0]}{cells[0][0]}>{cells[0][1]}{rest}</tr>\n")
    inner = Html(
        f"<table><caption>{escape(caption)}</caption><thead><tr>{heads}</tr></thead><tbody>\n{''.join(lines)}</tbody>"
        "</table>"
    )
    return element("div", inner, class_="scroll", tabindex="0", role="group", aria_label=caption)


def _heading(column: TableColumn) -> str:
    sorts = " data-sorts" if column.sorts else ""
    return f"<th scope=col{_class(column)}{sorts}>{text(column.title)}</th>"


def _class(column: TableColumn) -> str:
    return " class=n" if column.number else " class=wide" if column.wide else ""


def _cell(words: Words, value: object) -> tuple[str, str]:
    """The attribute that a cell is sorted by, and what it shows."""
    match value:
        case Cell(shown, values):
            attribute = escape("\n".join(map(str, values)))
            return (f' data-v="{attribute}"' if values else ""), _cell(words, shown)[1]
        case Html() | str():
            return "", text(value)
        case date():
            return "", moment(words, value)
        case None:
            return "", ""
    return "", text(words.shown(value))


def moment(words: Words, when: date) -> Html:
    """A day, or a day and a time, for people and for programs."""
    machine = when.isoformat(timespec="minutes") if isinstance(when, datetime) else when.isoformat()
    shown = words.shown(when)
    return element("time", shown, datetime=machine if shown != machine or words.language == VIETNAMESE else None)


def _filters(words: Words, listing: Listing) -> Html:
    """The form is hidden until the script is there to answer."""
    making = FilterControls(words)
    controls = [
        control
        for place, column in enumerate(listing.columns)
        for control in making.of(column, place, _found(listing, place) if column.filter == "choice" else ())
    ]
    if listing.searched and len(listing.rows) >= SEARCHED_FROM:
        controls.insert(0, making.search())
    if not controls:
        return Html()
    reset = element("button", words("pages.clear"), type="reset")
    caption = words("pages.filter", name=listing.caption)
    return element("form", *controls, reset, element("output"), class_="filters", hidden=True, aria_label=caption)


def _served_filters(words: Words, listing: Listing, served: ServedRows) -> Html:
    """A form that works by itself; what was asked for stands in it."""
    making = FilterControls(words, f"{listing.name}.", served.filters)
    controls = [making.search()] if listing.searched else []
    for place, column in enumerate(listing.columns):
        asked = served.filters.get(column.key, "")
        unlisted = [asked] if asked and asked not in column.choices else []
        controls += making.of(column, place, [*column.choices, *unlisted])
    if served.orders:
        controls.append(making.choice("order", words("pages.order"), served.orders))
    kept = (element("input", type="hidden", name=name, value=value) for name, value in served.kept.items())
    part = words("pages.part", first=served.first + 1, last=served.first + len(listing.rows), count=served.count)
    return element(
        "form",
        *kept,
        *controls,
        element("button", words("pages.apply"), type="submit"),
        link(f"?{urlencode(served.kept)}#{listing.name}", words("pages.clear")),
        element("output", part if listing.rows else words("pages.none")),
        class_="filters",
        method="get",
        action=f"#{listing.name}",
        aria_label=words("pages.filter", name=listing.caption),
    )


def _paging(words: Words, listing: Listing, served: ServedRows) -> Html:
    """Links to the pages before and after this one."""
    asked = {f"{listing.name}.{key}": value for key, value in served.filters.items() if value}
    links = []
    for page, title in ((served.page - 1, "pages.previous"), (served.page + 1, "pages.next")):
        if 1 <= page <= served.pages:
            query = urlencode({**asked, f"{listing.name}.page": str(page), **served.kept})
            links.append(link(f"?{query}#{listing.name}", words(title)))
    if not links:
        return Html()
    place = element("span", words("pages.page", page=served.page, pages=served.pages))
    return element("nav", place, *links, aria_label=words("pages.paging", name=listing.caption))


def _found(listing: Listing, place: int) -> list[str]:
    """The values of a column: those that were given words first, in that order."""
    found = {value for row in listing.rows for value in _values(row[place])}
    known = [value for value in listing.columns[place].choices if value in found]
    return [*known, *sorted(found - set(known))]


def _values(value: object) -> Iterable[str]:
    if isinstance(value, Cell) and value.values:
        return map(str, value.values)
    shown = value.shown if isinstance(value, Cell) else value
    return [] if shown in (None, "") else [str(shown)]
