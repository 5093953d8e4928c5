"""The columns of a table and the controls by which it is filtered: read by a script, or sent to a service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.pages.markup import Html, element, join
from headrace.pages.words import Words

CHOICES_MAX = 200
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


class FilterControls:
    """Makes controls. `prefix` stands before their names; `values` is what stands in them, by name without it."""

    def __init__(self, words: Words, prefix: str = "", values: Mapping[str, str] | None = None) -> None:
        self._words, self._prefix, self._values = words, prefix, values or {}

    def search(self) -> Html:
        """Words in any column."""
        return _label(self._words("pages.any"), self._input("any", "search", data_f="any"))

    def choice(self, key: str, title: str, options: Mapping[str, str], **marks: object) -> Html:
        """One of several values, or none."""
        asked = self._values.get(key, "")
        chosen = (
            element("option", shown, value=value, selected=bool(value) and value == asked)
            for value, shown in options.items()
        )
        return _label(title, element("select", *chosen, name=self._prefix + key, **marks))

    def of(self, column: TableColumn, place: int, found: Sequence[str]) -> Iterable[Html]:
        """The controls of a column; `found` are the values that a choice is among. Very many are typed, not listed."""
        key, title = column.key, column.title
        match column.filter:
            case "choice" if len(found) > CHOICES_MAX:
                yield _label(title, self._input(key, "search", data_f="pick", data_c=place))
            case "choice":
                named = {value: column.choices.get(value, value) for value in found}
                yield self.choice(key, title, {"": self._words("pages.all"), **named}, data_f="choice", data_c=place)
            case "text":
                yield _label(title, self._input(key, "search", data_f="text", data_c=place))
            case "days" | "range":
                kind = "date" if column.filter == "days" else "number"
                for end in ("from", "to"):
                    control = self._input(f"{key}.{end}", kind, data_f=end, data_c=place, step="any")
                    yield _label(self._words(f"pages.{end}", name=title), control)

    def _input(self, key: str, kind: str, **marks: object) -> Html:
        return element("input", type=kind, name=self._prefix + key, value=self._values.get(key) or None, **marks)


def _label(title: str, control: Html) -> Html:
    return element("label", join(element("span", title), control))
