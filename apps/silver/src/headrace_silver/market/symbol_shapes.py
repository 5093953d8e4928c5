"""What a symbol of a Vietnamese exchange looks like, and a pattern for those that the specification's own refuses.

The specification allows for covered warrants and funds in words; its pattern (three to seven capitals) refuses them:
`CVNM2401` is a warrant, `FUEVFVND` and `E1VFVN30` are funds, and some shares have a digit (`PC1`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace_silver.market.notes import Note
from headrace_silver.records.rules import SYMBOL_PATTERN

WARRANT = "C[A-Z]{3}[0-9]{4}"
FUND = "FU[A-Z0-9]{6}|E1VFVN30"
SHARE_WITH_DIGIT = "[A-Z][A-Z0-9]{2}"
SUGGESTED_PATTERN = f"^([A-Z]{{3,7}}|{SHARE_WITH_DIGIT}|{WARRANT}|{FUND})$"

_REAL = re.compile(f"{WARRANT}|{FUND}|{SHARE_WITH_DIGIT}").fullmatch


def suggestion(refused: Mapping[str, int], pattern: str) -> Note | None:
    """What to say if symbols that were refused (and how often) look real; whoever set a pattern has decided."""
    real = {symbol: count for symbol, count in refused.items() if _REAL(symbol)}
    if not real or pattern != SYMBOL_PATTERN:
        return None
    names = tuple(sorted(real, key=lambda symbol: (-real[symbol], symbol)))
    counts = {"count": sum(real.values()), "whole": sum(refused.values())}
    return Note("pattern", {**counts, "names": names, "pattern": SUGGESTED_PATTERN})
