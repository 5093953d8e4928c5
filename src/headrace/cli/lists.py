"""Lists that fit the terminal. Words are never cut where there is another way: ids become as short as they may, then
the columns that are needed least are left out, and a line says which.

A short id is the end of a long one: ids begin with the time they were made, so their beginnings are all alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

ID_CHARS_MIN = 8
# Text that is folded to less than this is harder to read than none.
FOLDED_CHARS_MIN = 24
WIDE = 10_000


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `short` are the same cells where there is little room; `spare` ones are left out, the highest first;
    text that `folds` goes on in the next line."""

    name: str
    cells: Sequence[str]
    short: Sequence[str] | None = None
    spare: int = 0
    folds: bool = False


def short_ids(ids: Sequence[str]) -> list[str]:
    """The ends of these ids, long enough to tell them from each other."""
    known, length = set(ids), ID_CHARS_MIN
    while len({each[-length:] for each in known}) < len(known):
        length += 1
    return [each[-length:] for each in ids]


def print_list(console: Console, columns: Sequence[Column]) -> None:
    """Print the first form of the list that fits the console; if none does, the smallest, folded wherever it must."""
    shown, left_out = list(columns), list[str]()
    for shown, is_short in _forms(columns):
        table = _table(shown, is_short)
        left_out = [column.name for column in columns if column not in shown]
        if _least(console, table) <= console.width:
            break
    else:
        table = _table(shown, is_short=True, tight=True)
    console.print(table)
    if left_out:
        console.print(f"no room for: {', '.join(left_out)} (a wider terminal, a pipe and --json have them)")


def _forms(columns: Sequence[Column]) -> Iterator[tuple[list[Column], bool]]:
    """From everything in full to what must be there."""
    shown = list(columns)
    yield shown, False
    yield shown, True
    for column in sorted((column for column in columns if column.spare), key=lambda column: -column.spare):
        shown = [each for each in shown if each is not column]
        yield shown, True


def _least(console: Console, table: Table) -> int:
    """How wide a table is at least; a measurement never says more than the width it may have."""
    return Measurement.get(console, console.options.update(width=WIDE), table).minimum


def _table(columns: Sequence[Column], is_short: bool, tight: bool = False) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    cells = [column.short if is_short and column.short is not None else column.cells for column in columns]
    for column, own in zip(columns, cells, strict=True):
        longest = max(Text.from_markup(cell).cell_len for cell in (column.name, *own))
        least = min(longest, FOLDED_CHARS_MIN) if column.folds else longest
        rigid = not column.folds and not tight
        table.add_column(column.name, no_wrap=rigid, overflow="fold", min_width=None if tight else least)
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
