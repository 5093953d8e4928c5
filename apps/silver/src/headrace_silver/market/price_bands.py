"""What a price on a Vietnamese exchange can look like: its daily band and its tick. For warnings, never for rejects.

A break of the band is legitimate after a corporate action (a dividend, a split) that nobody has told us of; prices that
were adjusted afterwards lie between the ticks. The database finds the few suspicious bars with
the figures stated here; `judge_band` then looks at each of them exactly. Prices are in dong: price × price_multiplier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace_silver.market.symbol_shapes import FUND, WARRANT

HOSE, HNX, UPCOM, UNKNOWN = "HOSE", "HNX", "UPCOM", "unknown"
# Where nobody knows the exchange, only what none of them allows is odd.
BANDS = {HOSE: 0.07, HNX: 0.10, UPCOM: 0.15, UNKNOWN: 0.15}
# On the first day, and on the first one after more than so many trading days without a bar.
FIRST_DAY_BANDS = {HOSE: 0.20, HNX: 0.30, UPCOM: 0.40, UNKNOWN: 0.40}
SUSPENDED_DAYS = 25
STEP_MAX = 100

_FUND_OR_WARRANT = re.compile(f"{WARRANT}|{FUND}")
_WARRANT = re.compile(WARRANT)
# A price is a sum of floats on its way here: half a thousandth of a dong is nothing.
_TOLERANCE = 1e-9


def is_fund_or_warrant(symbol: str) -> bool:
    """Exchange-traded funds and covered warrants of HOSE, by the shape of their symbols."""
    return _FUND_OR_WARRANT.fullmatch(symbol) is not None


def has_band(symbol: str) -> bool:
    """The limits of a covered warrant follow from its underlying share, not from its own last price."""
    return _WARRANT.fullmatch(symbol) is None


def tick(exchange: str, symbol: str, price: float) -> int:
    """The smallest step of a price, in dong. Every exchange's is a multiple of ten."""
    if exchange == UNKNOWN:
        return 10
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
    """A bar whose range leaves the band of its exchange, in dong; `rested` counts the trading days without a bar.

    `is_first`: on the first day on its exchange; `is_adjusted`: the reference was moved for a corporate action.
    """

    symbol: str
    reference: float
    low: float
    high: float
    rested: int
    is_first: bool = False
    is_adjusted: bool = False


def limits(exchange: str, candidate: Candidate) -> tuple[float, float]:
    """Floor and ceiling of the day. A limit is never nearer than one step: a share of 100 dong may move by 10.

    Over days without a bar the price may have moved by a band each day; after a long suspension it starts anew. The
    exchange rounds a reference that it has moved, by less than a step.
    """
    starts = candidate.is_first or candidate.rested > SUSPENDED_DAYS
    band = (FIRST_DAY_BANDS if starts else BANDS)[exchange]
    days = 1 if starts else candidate.rested + 1
    reference = candidate.reference
    step = STEP_MAX if exchange == UNKNOWN else tick(exchange, candidate.symbol, reference)
    rounded = step if candidate.is_adjusted else 0
    floor = min((reference - rounded) * (1 - band) ** days, reference - step)
    return floor, max((reference + rounded) * (1 + band) ** days, reference + step)


def judge_band(exchange: str, candidate: Candidate) -> bool:
    """Whether the range of a bar really leaves its band."""
    if not has_band(candidate.symbol) or candidate.reference <= 0:
        return False
    floor, ceiling = limits(exchange, candidate)
    slack = candidate.reference * _TOLERANCE
    return candidate.low < floor - slack or candidate.high > ceiling + slack
