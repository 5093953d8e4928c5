"""Where symbols are traded and what companies did, kept in tables of our own and filled from CSV files.

Nothing of it comes by the queue, because the specification has no task for it. A file is taken whole or not at all.
"""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from headrace.errors import CallerError, SchemaMismatch
from headrace_silver.market.corporate_actions import KINDS, CorporateAction
from headrace_silver.market.price_bands import BANDS, UNKNOWN
from headrace_silver.stores.silver_store import SilverStore

ROWS_MAX = 1_000_000
ALWAYS = date.min
EXCHANGE_COLUMNS = ("symbol", "exchange", "since")
ACTION_COLUMNS = ("symbol", "ex_date", "kind", "ratio", "cash", "price")
EXCHANGES = tuple(name for name in BANDS if name != UNKNOWN)


@dataclass(frozen=True, slots=True)
class ExchangeEntry:
    """A symbol is traded there from that day on."""

    symbol: str
    since: date
    exchange: str


@dataclass(frozen=True, slots=True)
class Market:
    """Where symbols are traded, and what their companies did; `default` stands for what is not known of a symbol."""

    default: str = UNKNOWN
    exchanges: Mapping[str, Sequence[ExchangeEntry]] = field(default_factory=dict)
    actions: Mapping[str, Sequence[CorporateAction]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.default not in BANDS:
            raise CallerError(f"{self.default!r} is not an exchange", f"one of {', '.join(EXCHANGES)}")

    def exchange(self, symbol: str, day: date) -> str:
        """Where a symbol was traded on that day."""
        held = [entry.exchange for entry in self.exchanges.get(symbol, ()) if entry.since <= day]
        return held[-1] if held else self.default

    def is_first_day(self, symbol: str, day: date) -> bool:
        """Whether it was the first day of a symbol on an exchange."""
        return any(entry.since == day for entry in self.exchanges.get(symbol, ()))

    def actions_between(self, symbol: str, previous: date, day: date) -> list[CorporateAction]:
        """What happened after the previous bar, until this one."""
        return [action for action in self.actions.get(symbol, ()) if previous < action.ex_date <= day]


def read_market(store: SilverStore, first: date, last: date, default: str) -> Market:
    """What the tables know; somebody else's database may not have them."""
    exchanges: defaultdict[str, list[ExchangeEntry]] = defaultdict(list)
    actions: defaultdict[str, list[CorporateAction]] = defaultdict(list)
    try:
        for row in store.rows("market_exchanges"):
            exchanges[row[0]].append(ExchangeEntry(*row))
        for row in store.rows("market_actions", {"first": first, "last": last}):
            actions[row[0]].append(CorporateAction(*row))
    except SchemaMismatch:
        return Market(default)
    return Market(default, exchanges, actions)


def put_exchanges(store: SilverStore, path: Path, replace: bool = False) -> int:
    """Take a file of symbol, exchange and since; how many lines."""
    return _put(store, "exchanges", _rows(path, EXCHANGE_COLUMNS, _exchange_entry), replace)


def put_actions(store: SilverStore, path: Path, replace: bool = False) -> int:
    """Take a file of corporate actions; how many lines."""
    return _put(store, "actions", _rows(path, ACTION_COLUMNS, _action), replace)


def _put(store: SilverStore, what: str, rows: Sequence[Any], replace: bool) -> int:
    # Of several lines with one key the last counts; one statement cannot write a row twice.
    unique = {tuple(asdict(row).values())[: 2 if what == "exchanges" else 3]: row for row in rows}
    with store.transaction():
        if replace:
            store.rows(f"market_forget_{what}")
        store.rows(f"market_put_{what}", {"rows": json.dumps([asdict(row) for row in unique.values()], default=str)})
    return len(rows)


def _rows(path: Path, columns: Sequence[str], entry_of: Callable[[Mapping[str, str]], Any]) -> list[Any]:
    """The lines of a CSV file with a heading, read; a line that cannot be is named."""
    hint = f"a CSV file with the heading {','.join(columns)}"
    found: list[Any] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.DictReader(file, skipinitialspace=True)
            if not set(columns[:2]) <= set(lines.fieldnames or ()) <= set(columns):
                raise CallerError(f"{path} has the columns {', '.join(lines.fieldnames or ('nothing',))}", hint)
            for line in lines:
                if len(found) >= ROWS_MAX:
                    raise CallerError(f"{path} has more than {ROWS_MAX:,} lines", "split it")
                try:
                    found.append(entry_of({name: (line.get(name) or "").strip() for name in columns}))
                except ValueError as error:
                    raise CallerError(f"line {lines.line_num} of {path}: {error}", hint) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CallerError(f"{path} cannot be read: {error}", hint) from error
    return found


def _symbol(line: Mapping[str, str]) -> str:
    symbol = line["symbol"]
    if not symbol or "\0" in symbol or len(symbol) > 100:
        raise ValueError("it names no symbol")
    return symbol


def _exchange_entry(line: Mapping[str, str]) -> ExchangeEntry:
    exchange = line["exchange"].upper()
    if exchange not in EXCHANGES:
        raise ValueError(f"{exchange!r} is not an exchange (one of {', '.join(EXCHANGES)})")
    return ExchangeEntry(_symbol(line), date.fromisoformat(line["since"]) if line["since"] else ALWAYS, exchange)


def _action(line: Mapping[str, str]) -> CorporateAction:
    kind = line["kind"].lower()
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not an action (one of {', '.join(KINDS)})")
    figures = {name: float(line[name]) if line[name] else None for name in ("ratio", "cash", "price")}
    for name, figure in figures.items():
        if figure is not None and name not in KINDS[kind]:
            raise ValueError(f"{name} is no figure of {kind}")
        if figure is not None and not (math.isfinite(figure) and figure > (-1 if name == "ratio" else -1e-12)):
            raise ValueError(f"{name} cannot be {line[name]}")
    return CorporateAction(_symbol(line), date.fromisoformat(line["ex_date"]), kind, **figures)
