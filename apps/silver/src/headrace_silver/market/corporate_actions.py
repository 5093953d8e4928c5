"""What a company does to its own price: dividends, new shares, rights. The exchange moves the reference price for it.

On the ex-date the reference is (price + ratio × price of the new shares − cash) / (1 + ratio), all actions of the day
together: cash is a dividend in dong per share, a ratio the number of new shares for each old one (a dividend in shares
of 15 % is 0.15, a split into two is 1, a consolidation of ten into one is −0.9), and rights have a price, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from itertools import groupby

CASH, SHARES, RIGHTS, OTHER = "cash", "shares", "rights", "other"
# Which figures a kind needs; a kind without one leaves the reference of its day unknown.
KINDS = {CASH: ("cash",), SHARES: ("ratio",), RIGHTS: ("ratio", "price"), OTHER: ()}


@dataclass(frozen=True, slots=True)
class CorporateAction:
    """One action of a company; a figure that is None is not known, or not of its kind."""

    symbol: str
    ex_date: date
    kind: str
    ratio: float | None = None
    cash: float | None = None
    price: float | None = None

    @property
    def is_known(self) -> bool:
        figures = [getattr(self, name) for name in KINDS[self.kind]]
        return bool(figures) and None not in figures


def adjusted(reference: float, actions: Iterable[CorporateAction]) -> float | None:
    """The reference price after these actions, given in order of their days; None if one of them is not known."""
    for _, together in groupby(actions, key=lambda action: action.ex_date):
        day = list(together)
        if not all(action.is_known for action in day):
            return None
        ratio = sum(action.ratio or 0.0 for action in day)
        paid = sum((action.ratio or 0.0) * (action.price or 0.0) for action in day)
        reference = (reference + paid - sum(action.cash or 0.0 for action in day)) / (1 + ratio)
    return reference
