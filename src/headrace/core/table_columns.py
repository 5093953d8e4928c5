"""Many sets of values for one statement, held by column: rows by the thousand without an object for each of them.

A column is any sequence, or an array that knows its own type (numpy's: masked elements are NULL); `Coded` is a column
of few different values. Where a database takes rows in bulk they go there as they are held; elsewhere they are run one
by one like any other values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

from headrace.core.errors import CallerError


class ValueColumn(Protocol):
    """What a column can do: a list can, and so can an array."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: Any, /) -> Any: ...


class Coded:
    """A column of few different values: `codes` are places in `values`."""

    __slots__ = ("codes", "values")

    def __init__(self, codes: ValueColumn, values: Sequence[object]) -> None:
        self.codes, self.values = codes, tuple(values)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, place: slice) -> Coded:
        return Coded(self.codes[place], self.values)


class Columns(Sequence[Mapping[str, object]]):
    """Columns of the same length by the names of a statement's values. As a sequence: one mapping for each row."""

    __slots__ = ("_count", "by_name")

    def __init__(self, by_name: Mapping[str, ValueColumn]) -> None:
        lengths = {len(column) for column in by_name.values()}
        if len(lengths) > 1:
            raise CallerError(f"columns of different lengths: {', '.join(map(str, sorted(lengths)))}")
        self.by_name = dict(by_name)
        self._count = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        for row in self.rows(tuple(self.by_name)):
            yield dict(zip(self.by_name, row, strict=True))

    @overload
    def __getitem__(self, place: int) -> Mapping[str, object]: ...

    @overload
    def __getitem__(self, place: slice) -> Columns: ...

    def __getitem__(self, place: int | slice) -> Mapping[str, object] | Columns:
        if isinstance(place, slice):
            return Columns({name: column[place] for name, column in self.by_name.items()})
        number = range(self._count)[place]
        return next(iter(self[number : number + 1]))

    def rows(self, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
        """The values of these names, row by row, as Python has them."""
        return zip(*(plain(self.by_name[name]) for name in names), strict=True)


def plain(column: ValueColumn) -> Sequence[object]:
    """The values of a column as Python has them."""
    if isinstance(column, Coded):
        return [column.values[code] for code in plain(column.codes)]  # type: ignore[call-overload]
    listed = getattr(column, "tolist", None)
    return listed() if listed is not None else column  # type: ignore[return-value]


def column_of(values: Sequence[Mapping[str, object]], name: str) -> ValueColumn:
    """The values of one name, of whatever kind the rows are."""
    return values.by_name[name] if isinstance(values, Columns) else [each[name] for each in values]
