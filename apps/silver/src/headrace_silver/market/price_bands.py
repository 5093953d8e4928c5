"""What a price on a Vietnamese exchange can look like: its daily band and its tick. For warnings, never for rejects.

A break of the band is legitimate after a corporate action (a dividend, a split), on a first day and after a long
suspension; prices that were adjusted afterwards lie between the ticks. The database finds the few suspicious bars with
the figures stated here; `judge_band` then looks at each of them exactly. Prices are in dong: price × price_multiplier.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import CallerError
from headrace_silver.market.symbol_shapes import FUND, WARRANT

HOSE, HNX, UPCOM = "HOSE", "HNX", "UPCOM"
BANDS = {HOSE: 0.07, HNX: 0.10, UPCOM: 0.15}
# On the first day, and on the first one after more than so many trading days without a bar.
FIRST_DAY_BANDS = {HOSE: 0.20, HNX: 0.30, UPCOM: 0.40}
SUSPENDED_DAYS = 25

_FUND_OR_WARRANT = re.compile(f"{WARRANT}|{FUND}")
_WARRANT = re.compile(WARRANT)
# A price is a sum of floats on its way here: half a thousandth of a dong is nothing.
_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Market:
    """Which exchange a symbol is traded on: as stated, else the default."""

    default: str = HOSE
    exchanges: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (self.default, *self.exchanges.values()):
            if name not in BANDS:
                raise CallerError(f"{name!r} is not an exchange", f"one of {', '.join(BANDS)}")

    def exchange(self, symbol: str) -> str:
        return self.exchanges.get(symbol, self.default)


def read_exchanges(path: Path) -> dict[str, str]:
    """Symbol and exchange from the first two columns of a CSV file; a heading line is passed over."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _exchanges(csv.reader(file), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CallerError(f"{path} cannot be read: {error}", "a CSV file of symbol,exchange") from error


def _exchanges(rows: Iterable[list[str]], path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for place, row in enumerate(rows):
        if not row or (place == 0 and row[0].strip().lower() == "symbol"):
            continue
        exchange = row[1].strip().upper() if len(row) > 1 else ""
        if exchange not in BANDS:
            raise CallerError(
                f"line {place + 1} of {path}: {exchange!r} is not an exchange", f"one of {', '.join(BANDS)}"
            )
        found[row[0].strip()] = exchange
    return found


def is_fund_or_warrant(symbol: str) -> bool:
    """Exchange-traded funds and covered warrants of HOSE, by the shape of their symbols."""
    return _FUND_OR_WARRANT.fullmatch(symbol) is not None


def has_band(symbol: str) -> bool:
    """The limits of a covered warrant follow from its underlying share, not from its own last price."""
    return _WARRANT.fullmatch(symbol) is None


def tick(exchange: str, symbol: str, price: float) -> int:
    """The smallest step of a price, in dong."""
    if exchange != HOSE:
        return 100
    if is_fund_or_warrant(symbol) or price < 10_000:
        return 10
    return 50 if price < 50_000 else 100


def is_on_tick(exchange: str, symbol: str, price: float) -> bool:
    """Whether a price in dong is a whole number of steps."""
    step = tick(exchange, symbol, price)
    return abs(price - round(price / step) * step) <= max(price, 1.0) * _TOLERANCE


@dataclass(frozen=True, slots=True)
class Candidate:
    """A bar whose range leaves the band of its exchange, in dong; `rested` counts the trading days without a bar."""

    symbol: str
    reference: float
    low: float
    high: float
    rested: int


def limits(exchange: str, candidate: Candidate) -> tuple[float, float]:
    """Floor and ceiling of the day. A limit is never nearer than one step: a share of 100 dong may move by 10.

    Over days without a bar the price may have moved by a band each day; after a long suspension it starts anew.
    """
    suspended = candidate.rested > SUSPENDED_DAYS
    band = (FIRST_DAY_BANDS if suspended else BANDS)[exchange]
    days = 1 if suspended else candidate.rested + 1
    reference = candidate.reference
    step = tick(exchange, candidate.symbol, reference)
    return min(reference * (1 - band) ** days, reference - step), max(reference * (1 + band) ** days, reference + step)


def judge_band(exchange: str, candidate: Candidate) -> bool:
    """Whether the range of a bar really leaves its band."""
    if not has_band(candidate.symbol) or candidate.reference <= 0:
        return False
    floor, ceiling = limits(exchange, candidate)
    slack = candidate.reference * _TOLERANCE
    return candidate.low < floor - slack or candidate.high > ceiling + slack
