"""The dictionaries of a network, as values: which elements there are, which counters are wanted, what a node does.

They come from the tables `ne`, `counter_cat`, `extra_field_column` and `node_function`, which operators fill by SQL or
import from CSV files of the same names. Nothing here reads a table: the rows are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.errors import NotFound
from headrace_pm.counters.scope import CounterScope

# The level of a counter is that of this column.
LEVEL_COLUMN = "rat_type"


class UnknownElement(NotFound):
    """A file of a network element that no dictionary has. It stays one until a dictionary is imported."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Unknown NE: {name}", "headrace pm import")


@dataclass(frozen=True, slots=True)
class DictionaryRows:
    """The rows of the four tables: name → id, (counter, level) → group, code → level, name → rat_type. Levels are
    compared as text: the tables of some operators have numbers there, those of others words."""

    ne: Mapping[str, int] = field(default_factory=dict)
    counter_cat: Mapping[tuple[int, str], str] = field(default_factory=dict)
    extra_field_column: Mapping[str, str] = field(default_factory=dict)
    node_function: Mapping[str, str] = field(default_factory=dict)


class NetworkDictionary:
    """What files are joined with. Does not change: who re-reads the tables makes a new one."""

    def __init__(self, rows: DictionaryRows) -> None:
        self._elements = dict(rows.ne)
        self._rat_types = {name.lower(): rat_type for name, rat_type in rows.node_function.items()}
        level = rows.extra_field_column.get(LEVEL_COLUMN)
        self.scope = CounterScope(_at_level(rows.counter_cat.items(), level))

    def ne_id(self, unit: str) -> int:
        """The id of a network element; `UnknownElement` if it has none."""
        found = self._elements.get(unit)
        if found is None:
            raise UnknownElement(unit)
        return found

    def rat_type(self, node_function: str) -> str:
        """The radio access of a node by its function in lower case; '' if there is none, or an unknown one."""
        return self._rat_types.get(node_function, "")


def _at_level(entries: Iterable[tuple[tuple[int, str], str]], level: str | None) -> dict[int, str]:
    return {counter: group for (counter, at), group in entries if at == level}
