"""Our statements in psycopg's notation."""

from __future__ import annotations

from functools import cache
from typing import LiteralString

from headrace.tables import driver_text
from headrace_silver.stores.silver_store import statements


@cache
def statement(name: str) -> LiteralString:
    """A statement by its name."""
    return driver_text(statements("postgres")[name].text)


@cache
def bars_statement(currency: bool, multiplier: bool, keeps: bool) -> LiteralString:
    """Upsert bars that all state their currency, or all do not, and so with their multiplier.

    The answer is one row: how many stored bars were overwritten with other values, as far as they are kept.
    """
    restated = "currency = EXCLUDED.currency, " if currency else ""
    restated += "price_multiplier = EXCLUDED.price_multiplier," if multiplier else ""
    parts = ["consume_bars_input", *(["consume_bars_revised"] if keeps else []), "consume_bars_written"]
    text = ",\n".join(statement(part) for part in parts).replace("{restated}", restated)
    return f"WITH {text}\nSELECT {'count(*) FROM prior' if keeps else '0'}"
