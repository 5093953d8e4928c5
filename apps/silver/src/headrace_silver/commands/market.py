"""`headrace silver market …`: where symbols are traded, and what their companies did."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.commands import command_group, of
from headrace_silver.commands.opened_stores import opened_store

app = command_group("market", "Exchanges of symbols and corporate actions, for price bands.")

Csv = Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file with a heading.")]
Replace = Annotated[bool, typer.Option("--replace", help="Forget first what was known.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command()
def exchanges(context: typer.Context, file: Csv, replace: Replace = False) -> None:
    """Take a file of symbol,exchange,since: HOSE, HNX or UPCOM.

    Without a day since when, a symbol has always been there. What is known of the same symbol and day is overwritten.
    """
    from headrace_silver.market.market_tables import put_exchanges

    session = of(context)
    with opened_store(session, create=True) as store:
        count = put_exchanges(store, file, replace)
    session.answer({"file": str(file), "exchanges": count}, lambda console: console.print(f"{count:,} exchanges"))


@app.command()
def actions(context: typer.Context, file: Csv, replace: Replace = False) -> None:
    """Take a file of symbol,ex_date,kind,ratio,cash,price.

    The kinds are cash (dong per share), shares (new ones per old one: dividend, bonus, split), rights (ratio and price)
    and other. An action whose figures are empty keeps its day from being judged.
    """
    from headrace_silver.market.market_tables import put_actions

    session = of(context)
    with opened_store(session, create=True) as store:
        count = put_actions(store, file, replace)
    session.answer({"file": str(file), "actions": count}, lambda console: console.print(f"{count:,} actions"))


@app.command()
def show(context: typer.Context, symbol: Annotated[str, typer.Argument(help="Whose.")]) -> None:
    """Show what is known of a symbol."""
    from headrace_silver.market.market_tables import ALWAYS, read_market
    from headrace_silver.market.price_bands import UNKNOWN

    session = of(context)
    with opened_store(session) as store:
        market = read_market(store, date.min, date.max, UNKNOWN)
    held, done = market.exchanges.get(symbol, ()), market.actions.get(symbol, ())
    document = {
        "symbol": symbol,
        "exchanges": [{"since": None if e.since == ALWAYS else str(e.since), "exchange": e.exchange} for e in held],
        "actions": [
            {"ex_date": str(a.ex_date), "kind": a.kind, "ratio": a.ratio, "cash": a.cash, "price": a.price}
            for a in done
        ],
    }

    def tell(console: Any) -> None:
        for entry in held:
            console.print(f"{'always' if entry.since == ALWAYS else entry.since}  {entry.exchange}")
        for action in done:
            figures = {"ratio": action.ratio, "cash": action.cash, "price": action.price}
            stated = [f"{name} {figure:g}" for name, figure in figures.items() if figure is not None]
            console.print(f"{action.ex_date}  {', '.join([action.kind, *stated])}")
        if not (held or done):
            console.print(f"nothing is known of {symbol}", markup=False)

    session.answer(document, tell)
