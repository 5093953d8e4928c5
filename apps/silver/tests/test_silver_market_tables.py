"""Where symbols are traded and what companies did: kept in tables, so that bands stop crying."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from silver_desk import ask, bar, consume, put
from silver_quality_sample import DAYS, NOW

from headrace.errors import CallerError
from headrace_silver.market.corporate_actions import CorporateAction, adjusted
from headrace_silver.market.market_tables import ExchangeEntry, Market, put_actions, put_exchanges, read_market
from headrace_silver.market.price_bands import UNKNOWN
from headrace_silver.quality.assessment import assess
from headrace_silver.quality.values import ReportSettings
from headrace_silver.report.document import document
from headrace_silver.stores.silver_store import SilverStore

Command = Callable[..., "subprocess.CompletedProcess[str]"]
SECOND, THIRD = DAYS[-2:]


@pytest.fixture
def csv(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        (tmp_path / "market.csv").write_text(text, "utf-8")
        return tmp_path / "market.csv"

    return write


def broken(store: SilverStore, exchange: str = UNKNOWN) -> list[tuple[str, str, date]]:
    found = assess(store, NOW, ReportSettings(10, exchange=exchange)).band_breaks
    return [(entry.symbol, entry.exchange, entry.day) for entry in found]


def trade(store: SilverStore, symbol: str, *prices: float) -> None:
    """Bars of the last days, each a dot."""
    same = ("open", "high", "low", "close")
    days = DAYS[-len(prices) :]
    put(store, [bar(symbol, str(day), **dict.fromkeys(same, price)) for day, price in zip(days, prices, strict=True)])
    assert consume(store).rejects == 0


def test_each_exchange_has_its_band_from_its_day_on(silver_store: SilverStore, csv: Callable[[str], Path]) -> None:
    for symbol in ("HOS", "HNX", "UPC", "NEW", "NIL"):
        trade(silver_store, symbol, 20_000, 22_000)
    lines = f"HOS,HOSE,\nHNX,HNX,2020-01-01\nUPC,upcom,\nNEW,UPCOM,2020-01-01\nNEW,HOSE,{THIRD}\n"
    assert put_exchanges(silver_store, csv(f"symbol,exchange,since\n{lines}")) == 5
    # Ten per cent: more than HOSE allows, but not on the first day there, and not where nobody knows.
    assert broken(silver_store) == [("HOS", "HOSE", THIRD)]
    found = assess(silver_store, NOW, ReportSettings(10))
    exchanges = {entry.symbol: entry.exchange for entry in found.symbols}
    assert exchanges == {"HOS": "HOSE", "HNX": "HNX", "UPC": "UPCOM", "NEW": "HOSE", "NIL": "unknown"}
    assert any("where 1 of the symbols are traded" in note for note in document(found)["notes"])
    assert broken(silver_store, "HOSE") == [("HOS", "HOSE", THIRD), ("NIL", "HOSE", THIRD)]


def test_a_symbol_that_moved_is_judged_by_the_exchange_of_the_day(
    silver_store: SilverStore, csv: Callable[[str], Path]
) -> None:
    trade(silver_store, "MOV", 20_000, 22_000, 24_200)
    put_exchanges(silver_store, csv(f"symbol,exchange,since\nMOV,UPCOM,2020-01-01\nMOV,HOSE,{SECOND}\n"))
    # Wider on its first day on HOSE, seven per cent from then on.
    assert broken(silver_store) == [("MOV", "HOSE", THIRD)]


@pytest.mark.parametrize(
    ("line", "price"),
    [("cash,,2000,", 18_000), ("shares,1,,", 10_000), ("rights,0.5,,10000", 16_650), ("shares,-0.9,,", 200_000)],
)
def test_a_corporate_action_moves_the_reference(
    silver_store: SilverStore, csv: Callable[[str], Path], line: str, price: int
) -> None:
    trade(silver_store, "VNM", 20_000, price)
    assert broken(silver_store, "HOSE") == [("VNM", "HOSE", THIRD)]
    head = "symbol,ex_date,kind,ratio,cash,price"
    assert put_actions(silver_store, csv(f"{head}\nVNM,{THIRD},{line}\n")) == 1
    assert broken(silver_store, "HOSE") == []
    trade(silver_store, "VNM", 20_000, price * 0.8)
    assert broken(silver_store, "HOSE") == [("VNM", "HOSE", THIRD)]


def test_an_action_of_another_day_changes_nothing(silver_store: SilverStore, csv: Callable[[str], Path]) -> None:
    trade(silver_store, "VNM", 20_000, 20_000, 10_000)
    put_actions(silver_store, csv(f"symbol,ex_date,kind,ratio\nVNM,{SECOND},shares,1\n"))
    assert broken(silver_store, "HOSE") == [("VNM", "HOSE", THIRD)]


def test_an_action_without_figures_keeps_its_day_from_being_judged(
    silver_store: SilverStore, csv: Callable[[str], Path]
) -> None:
    trade(silver_store, "VNM", 20_000, 7_000)
    put_actions(silver_store, csv(f"symbol,ex_date,kind\nVNM,{THIRD},other\n"))
    assert broken(silver_store, "HOSE") == []


def test_prices_that_were_adjusted_already_are_left_in_peace(
    silver_store: SilverStore, csv: Callable[[str], Path]
) -> None:
    trade(silver_store, "VNM", 10_000, 10_000)
    put_actions(silver_store, csv(f"symbol,ex_date,kind,ratio\nVNM,{THIRD},shares,1\n"))
    assert broken(silver_store, "HOSE") == []


def test_the_actions_of_one_day_count_together() -> None:
    day, later = date(2025, 3, 12), date(2025, 3, 13)
    both = [CorporateAction("VNM", day, "cash", cash=1_000), CorporateAction("VNM", day, "shares", ratio=0.5)]
    assert adjusted(16_000, both) == 10_000
    assert adjusted(16_000, [*both, CorporateAction("VNM", later, "shares", ratio=1)]) == 5_000
    assert adjusted(16_000, [*both, CorporateAction("VNM", later, "cash")]) is None


def test_a_file_adds_and_overwrites_or_replaces(silver_store: SilverStore, csv: Callable[[str], Path]) -> None:
    def known() -> dict[str, str]:
        market = read_market(silver_store, date.min, date.max, UNKNOWN)
        return {symbol: market.exchange(symbol, THIRD) for symbol in market.exchanges}

    put_exchanges(silver_store, csv("\ufeffsymbol,exchange\nSHS, hnx \n\nBSR,UPCOM\nBSR,HOSE\n"))
    assert known() == {"SHS": "HNX", "BSR": "HOSE"}
    put_exchanges(silver_store, csv("symbol,exchange\nBSR,HNX\n"))
    assert known() == {"SHS": "HNX", "BSR": "HNX"}
    put_exchanges(silver_store, csv("symbol,exchange\nVNM,HOSE\n"), replace=True)
    assert known() == {"VNM": "HOSE"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("symbol,exchange\nVNM,HOSE\nSHS,NASDAQ\n", "line 3 of .*'NASDAQ' is not an exchange"),
        ("symbol,exchange\nVNM,HOSE\nSHS\n", "line 3 of"),
        ("symbol,exchange\n,HOSE\n", "names no symbol"),
        ("symbol,exchange,since\nVNM,HOSE,yesterday\n", "line 2 of"),
        ("VNM,HOSE\n", "has the columns VNM, HOSE"),
        ("", "has the columns nothing"),
    ],
)
def test_a_file_of_exchanges_is_taken_whole_or_not_at_all(
    silver_store: SilverStore, silver_url: str, csv: Callable[[str], Path], text: str, words: str
) -> None:
    with pytest.raises(CallerError, match=words):
        put_exchanges(silver_store, csv(text))
    assert ask(silver_url, "SELECT count(*) FROM silver_exchange") == [(0,)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("VNM,2025-03-13,gift,,,", "'gift' is not an action"),
        ("VNM,2025-03-13,cash,1,,", "ratio is no figure of cash"),
        ("VNM,2025-03-13,cash,,-5,", "cash cannot be -5"),
        ("VNM,2025-03-13,shares,-1,,", "ratio cannot be -1"),
        ("VNM,2025-03-13,shares,nan,,", "ratio cannot be nan"),
        ("VNM,soon,cash,,5,", "line 2 of"),
    ],
)
def test_an_action_that_makes_no_sense_is_refused(
    silver_store: SilverStore, csv: Callable[[str], Path], line: str, words: str
) -> None:
    with pytest.raises(CallerError, match=words):
        put_actions(silver_store, csv(f"symbol,ex_date,kind,ratio,cash,price\n{line}\n"))


def test_an_exchange_that_does_not_exist_is_refused() -> None:
    with pytest.raises(CallerError, match="'NYSE' is not an exchange"):
        Market("NYSE")
    entry = ExchangeEntry("VNM", date(2025, 3, 12), "HNX")
    market = Market("HOSE", {"VNM": [entry]})
    assert [market.exchange("VNM", date(2025, 3, day)) for day in (11, 12)] == ["HOSE", "HNX"]


def test_what_is_known_of_a_symbol_is_shown(headrace_command: Command, silver_url: str, tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = headrace_command("silver", *words, "--store", silver_url)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "exchanges.csv").write_text("symbol,exchange,since\nVNM,UPCOM,\nVNM,HOSE,2024-05-02\n")
    (tmp_path / "actions.csv").write_text("symbol,ex_date,kind,cash\nVNM,2025-03-12,cash,1500\n")
    run("init")
    run("market", "exchanges", "exchanges.csv")
    run("market", "actions", "actions.csv")
    told = json.loads(run("market", "show", "VNM", "--json"))
    assert told["exchanges"] == [{"since": None, "exchange": "UPCOM"}, {"since": "2024-05-02", "exchange": "HOSE"}]
    assert told["actions"][0]["cash"] == 1500
    assert "2025-03-12  cash, cash 1500" in run("market", "show", "VNM")
    assert "nothing is known of FPT" in run("market", "show", "FPT")
