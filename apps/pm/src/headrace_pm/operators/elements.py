"""Network elements as operators name them, by the fifty: so many a statement asks for at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from headrace.errors import NotFound
from headrace.tables import OpenTables

ELEMENTS_PER_READ = 50


@dataclass(frozen=True, slots=True)
class NamedElement:
    """A row of `ne`."""

    ne_id: int
    name: str


async def named_elements(tables: OpenTables, names: Sequence[str] = ()) -> list[NamedElement]:
    """Those of these names, or all, in the order of their names."""
    found = [NamedElement(*row) for row in await tables.rows("elements")]
    unknown = sorted(set(names) - {element.name for element in found})
    if unknown:
        raise NotFound(f"there is no element {', '.join(unknown)}", "headrace pm import brings elements from ne.csv")
    return [element for element in found if element.name in names] if names else found


def id_values(elements: Sequence[NamedElement]) -> Iterator[dict[str, object]]:
    """The ids as values of a statement, fifty at a time; a shorter list repeats its last one, which changes nothing."""
    for begin in range(0, len(elements), ELEMENTS_PER_READ):
        part = elements[begin : begin + ELEMENTS_PER_READ]
        yield {f"ne_{place:02d}": part[min(place, len(part) - 1)].ne_id for place in range(ELEMENTS_PER_READ)}
