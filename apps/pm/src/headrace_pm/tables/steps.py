"""One statement of a unit of work for one set of values that was put together before."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.tables import Ran, UnitOfWork


def run(tx: UnitOfWork, name: str, values: Mapping[str, object], expect: int | None = None) -> Ran:
    """As `tx.run`, whose values are named one by one."""
    return tx.run_many(name, (values,), expect=expect)
