"""Settlements on their way to the server: one statement for any number, one transaction if some record their own."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.adapters.postgres.calls import Row, one
from headrace.adapters.postgres.connections import Connection
from headrace.adapters.postgres.encoder import Cargo, bits_to_text, settlement_details
from headrace.adapters.postgres.recorded_statements import settle_recorded
from headrace.adapters.postgres.stops import with_stops
from headrace.core.claims import Settled, Settlement


def settle(connection: Connection, settlements: Sequence[Settlement]) -> tuple[list[Settled], bool]:
    """The answers, and whether workers should be woken."""
    fences = [settlement.fence for settlement in settlements]
    return with_stops(connection, fences, lambda: _settle(connection, settlements))


def _settle(connection: Connection, settlements: Sequence[Settlement]) -> tuple[list[Settled], bool]:
    if any(settlement.statements for settlement in settlements):
        return settle_recorded(connection, settlements, _call)
    reasons, rang = _call(connection, settlements)
    return [Settled(s.fence, not reason, reason) for s, reason in zip(settlements, reasons, strict=True)], rang


def _call(connection: Connection, settlements: Sequence[Settlement]) -> Row:
    return one(connection, "settle", values_of(settlements))


def values_of(settlements: Sequence[Settlement]) -> tuple[object, ...]:
    """What the statement `settle` takes."""
    cargo = Cargo()
    return (
        [settlement.fence for settlement in settlements],
        [settlement.step for settlement in settlements],
        [bits_to_text(settlement.done) for settlement in settlements],
        [settlement.end for settlement in settlements],
        [settlement_details(settlement, cargo) for settlement in settlements],
        cargo.payloads,
        cargo.ends,
    )
