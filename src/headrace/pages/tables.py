"""Tables that are read without a script, and filtered and sorted with one.

On a phone every row becomes a card, with the names of the columns beside the values: nothing is cut and nothing scrolls
sideways. Rows beyond the first hundred stand behind a line that opens; the script takes them in and shows a hundred at
a time. A filter is in the address of the page, so `filter_url` leads from a tile or a bar to the rows it counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from html import escape
from urllib.parse import urlencode

from headrace.pages.markup import Html, element, join, text
from headrace.pages.words import VIETNAMESE, Words

ROWS_OPEN = 100
# Fewer rows are overlooked at a glance.
SEARCHED_FROM = 12
CHOICES_MAX = 200
# A table with more columns becomes cards on a tablet already; a wide one takes the room of three.
COLUMNS_MANY = 8
FILTERS = ("choice", "text", "days", "range")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column. `key` names it in addresses; `filter` is one of `choice`, `text`, `days`, `range`, or empty. `choices`
    gives the values of a choice their words and their order. Numbers lean right; a `wide` one has room for sentences.
    """

    title: str
    key: str = ""
    number: bool = False
    wide: bool = False
    filter: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)
    sorts: bool = True

    def __post_init__(self) -> None:
        if self.filter and (self.filter not in FILTERS or not self.key):
            raise ValueError(f"the column {self.title!r} needs a key, and a filter out of {', '.join(FILTERS)}")


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


def filter_url(listing: str, **values: str) -> str:
    """The address of this page with a table filtered: `filter_url("posts", sentiment="negative")`."""
    return f"?{urlencode({f'{listing}.{key}': value for key, value in values.items()})}#{listing}"


def table(words: Words, listing: Listing) -> Html:
    """The table with what belongs to it."""
    opened, rest = listing.rows[:ROWS_OPEN], listing.rows[ROWS_OPEN:]
    parts = [_filters(words, listing), _region(words, listing, listing.caption, opened)]
    if rest:
        caption = words("pages.continued", name=listing.caption)
        summary = element("summary", words("pages.rest", count=len(rest)))
        parts.append(element("details", summary, _region(words, listing, caption, rest), class_="rest"))
    room = sum(3 if column.wide else 1 for column in listing.columns)
    many = "many" if room > COLUMNS_MANY else "few"
    return element(
        "div",
        *parts,
        class_=f"listing {many} {listing.kind}".strip(),
        data_table=listing.name,
        data_shown=words.template("pages.shown"),
        data_none=words("pages.none"),
        data_more=words.template("pages.more"),
    )


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
    controls = [
        control for place, column in enumerate(listing.columns) for control in _controls(words, listing, place, column)
    ]
    if listing.searched and len(listing.rows) >= SEARCHED_FROM:
        controls.insert(0, _label(words("pages.any"), element("input", type="search", name="any", data_f="any")))
    if not controls:
        return Html()
    reset = element("button", words("pages.clear"), type="reset")
    caption = words("pages.filter", name=listing.caption)
    return element("form", *controls, reset, element("output"), class_="filters", hidden=True, aria_label=caption)


def _controls(words: Words, listing: Listing, place: int, column: TableColumn) -> Iterable[Html]:
    match column.filter:
        case "choice":
            yield _label(column.title, _choice(words, listing, place, column))
        case "text":
            yield _label(column.title, element("input", type="search", name=column.key, data_f="text", data_c=place))
        case "days" | "range":
            kind = "date" if column.filter == "days" else "number"
            for end in ("from", "to"):
                control = element("input", type=kind, name=f"{column.key}.{end}", data_f=end, data_c=place, step="any")
                yield _label(words(f"pages.{end}", name=column.title), control)


def _choice(words: Words, listing: Listing, place: int, column: TableColumn) -> Html:
    """A list of what there is; a box to type in if there is too much of it."""
    found = {value for row in listing.rows for value in _values(row[place])}
    if len(found) > CHOICES_MAX:
        return element("input", type="search", name=column.key, data_f="text", data_c=place)
    known = [value for value in column.choices if value in found]
    values = [*known, *sorted(found - set(known))]
    options = (element("option", column.choices.get(value, value), value=value) for value in values)
    first = element("option", words("pages.all"), value="")
    return element("select", first, *options, name=column.key, data_f="choice", data_c=place)


def _values(value: object) -> Iterable[str]:
    if isinstance(value, Cell) and value.values:
        return map(str, value.values)
    shown = value.shown if isinstance(value, Cell) else value
    return [] if shown in (None, "") else [str(shown)]


def _label(title: str, control: Html) -> Html:
    return element("label", join(element("span", title), control))
