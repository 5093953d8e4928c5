"""Every figure of the report against a plain recount, on both kinds of store."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from silver_desk import ask, bar, consume, put
from silver_quality_sample import CLOSED, DAYS, LENGTH, NOW, STOPPED_AFTER, Sample, fill, make, recount

from headrace.errors import CallerError
from headrace_silver.quality.assessment import assess
from headrace_silver.quality.values import (
    MISSING,
    NOTHING,
    PRESENT,
    REJECTED,
    REVISED,
    WARNED,
    Quality,
    Rejection,
    ReportSettings,
    SymbolQuality,
)
from headrace_silver.report.document import document
from headrace_silver.report.page import page
from headrace_silver.report.text import gaps_text, late_text, note_text, spans
from headrace_silver.report.words import ENGLISH, TEXTS
from headrace_silver.stores.silver_store import SilverStore, init_script, open_store
from headrace_silver.stores.sqlite.statements import statement
from headrace_silver.stores.sqlite.store import SqliteSilverStore

SETTINGS = ReportSettings(LENGTH, STOPPED_AFTER, "HOSE")


@pytest.fixture
def sample() -> Sample:
    return make()


@pytest.fixture
def quality(silver_store: SilverStore, silver_url: str, sample: Sample) -> Quality:
    fill(silver_store, silver_url, sample)
    return assess(silver_store, NOW, SETTINGS)


def entry_of(quality: Quality, symbol: str) -> SymbolQuality:
    [entry] = [entry for entry in quality.symbols if entry.symbol == symbol]
    return entry


def cell(quality: Quality, symbol: str, day: date) -> str:
    return entry_of(quality, symbol).cells[DAYS.index(day)]


def check_symbols(quality: Quality, sample: Sample) -> None:
    assert list(quality.days) == DAYS
    assert not CLOSED & set(quality.days)
    assert [entry.symbol for entry in quality.symbols] == sorted({symbol for symbol, _ in sample.bars})
    for entry in quality.symbols:
        counted = recount(sample, entry.symbol)
        missing = [DAYS[place] for place, cell in enumerate(entry.cells) if cell == MISSING]
        assert {
            "first_day": entry.first_day,
            "last_day": entry.last_day,
            "behind": entry.behind,
            "stopped": entry.stopped,
            "expected": entry.expected,
            "present": entry.present,
            "missing": missing,
            "revisions": entry.revisions,
            "closed_days": entry.closed_days,
        } == counted, entry.symbol
        assert entry.missing == len(missing)
    assert [entry.symbol for entry in quality.late] == ["EDG", "LAT", "LTE"]
    assert [entry.symbol for entry in quality.stopped] == ["GON", "OLD"]
    whole = [recount(sample, entry.symbol) for entry in quality.symbols]
    assert quality.completeness == sum(entry["present"] for entry in whole) / sum(entry["expected"] for entry in whole)


def check_rejects(quality: Quality, sample: Sample) -> None:
    inside = [entry for entry in sample.rejects if entry[0] >= DAYS[0]]
    assert [(entry.day, entry.rule, entry.count) for entry in quality.rejects] == sorted(
        (day, rule or reason, count) for day, reason, rule, count in inside
    )
    assert quality.rejects_by_rule == {"ta_symbol": 9, "sa_text": 7, "exception": 2}
    assert entry_of(quality, "AAA").rejected == {"ta_price": 2, "ta_volume": 1}
    assert entry_of(quality, "HOL").rejected == {"exception": 1}
    present = entry_of(quality, "AAA").present
    assert entry_of(quality, "AAA").validity == present / (present + 3)
    assert entry_of(quality, "NEW").validity == 1.0


def check_articles(quality: Quality, sample: Sample) -> None:
    inside = [entry for entry in sample.articles if entry["publisher_time"] >= "2025"]
    articles = quality.articles
    assert articles.articles == len(inside)
    assert articles.with_symbols == sum(bool(entry["symbols"]) for entry in inside)
    assert articles.sources == len(articles.largest) == 2
    for source in articles.largest:
        own = [entry for entry in inside if entry["source_domain"] == source.domain]
        languages = Counter(entry["language"] for entry in own)
        assert source.articles == len(own)
        assert (source.vi, source.en, source.unknown, source.unstated) == tuple(
            languages[name] for name in ("vi", "en", "fr", None)
        )
        lags = sorted(
            _whole_seconds(entry["first_seen_time"]) - _whole_seconds(entry["publisher_time"]) for entry in own
        )
        assert source.lag_s_median == lags[-(-len(lags) // 2) - 1]
        assert source.lag_s_95 == lags[-(-len(lags) * 95 // 100) - 1]
    texts = Counter((entry["source_domain"], entry["content_hash"]) for entry in inside)
    copied = {key: count for key, count in texts.items() if count > 1}
    assert {(entry.domain, entry.content_hash): entry.articles for entry in articles.copies} == copied
    assert articles.copy_groups == len(copied)
    assert articles.copies_extra == sum(copied.values()) - len(copied)
    assert all(entry.url_first < entry.url_last for entry in articles.copies)


def _whole_seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def check_warnings(quality: Quality) -> None:
    """What was put in by hand, and only in dong; the vwap before counts on UPCoM, the close elsewhere."""
    assert {(entry.symbol, entry.day) for entry in quality.band_breaks} == {
        ("AAA", DAYS[21]),
        ("AAA", DAYS[30]),
        ("THO", DAYS[20]),
        ("SHS", DAYS[21]),
        ("BSR", DAYS[21]),
    }
    changes = {(entry.symbol, entry.day): round(entry.change, 4) for entry in quality.band_breaks}
    assert changes["AAA", DAYS[30]] == -0.0725
    assert changes["BSR", DAYS[21]] == round(20_800 / 18_000 - 1, 4)
    assert {entry.symbol: entry.tick_days for entry in quality.symbols if entry.tick_days} == {
        "AAA": 1,
        "SHS": 1,
        "ADJ": LENGTH - 1,
    }
    assert {entry.symbol: entry.band_days for entry in quality.symbols if entry.band_days} == Counter(
        entry.symbol for entry in quality.band_breaks
    )


def check_cells(quality: Quality) -> None:
    assert cell(quality, "AAA", DAYS[7]) == REVISED
    assert cell(quality, "AAA", DAYS[21]) == WARNED, "a day that is both revised and warned shows the warning"
    assert cell(quality, "AAA", DAYS[40]) == WARNED
    assert cell(quality, "AAA", DAYS[50]) == MISSING
    assert cell(quality, "AAA", DAYS[51]) == PRESENT
    assert cell(quality, "NEW", DAYS[0]) == NOTHING
    assert cell(quality, "GON", DAYS[-1]) == NOTHING
    assert cell(quality, "LAT", DAYS[-1]) == MISSING
    assert cell(quality, "ADJ", DAYS[3]) == PRESENT, "prices that lie between the steps day by day are a note"
    assert spans(entry_of(quality, "LAT").cells, DAYS) == [(DAYS[50], DAYS[50]), (DAYS[-2], DAYS[-1])]


def check_notes(quality: Quality) -> None:
    notes = "\n".join(note_text(ENGLISH, note) for note in quality.notes)
    assert f"No symbol has a bar on {DAYS[50]}" in notes
    assert f"where {len(quality.symbols) - 2} of the symbols are traded: HOSE is assumed" in notes
    assert "1 symbol has most of its prices between the steps" in notes
    assert "ADJ" in notes
    assert "2 rejected bars name no symbol" in notes


def test_every_figure_is_what_a_plain_recount_finds(quality: Quality, sample: Sample) -> None:
    check_symbols(quality, sample)
    check_rejects(quality, sample)
    check_articles(quality, sample)
    check_warnings(quality)
    check_cells(quality)
    check_notes(quality)


def test_an_empty_store_has_a_report(silver_store: SilverStore) -> None:
    quality = assess(silver_store, NOW, SETTINGS)
    assert (quality.symbols, quality.completeness, quality.rejects, quality.articles.articles) == ([], None, [], 0)


def test_what_the_consumer_rejects_today_is_in_the_report_of_today(silver_store: SilverStore) -> None:
    put(silver_store, [bar("VNM", "2024-01-02"), bar("VNM", "2024-01-03", volume=-1), bar("v", "2024-01-03")])
    consume(silver_store)
    quality = assess(silver_store, datetime.now(UTC), ReportSettings(days=20))
    assert quality.rejects_by_rule == {"ta_symbol": 1, "ta_volume": 1}
    assert quality.slow is False
    assert entry_of(quality, "VNM").rejected == {"ta_volume": 1}


def test_bars_on_a_day_when_the_exchanges_were_closed_are_told(silver_store: SilverStore) -> None:
    put(silver_store, [bar(symbol, day) for symbol in ("VNM", "FPT") for day in ("2025-01-24", "2025-01-27")])
    consume(silver_store)
    quality = assess(silver_store, NOW, SETTINGS)
    assert any("Most symbols have a bar on 2025-01-27" in note_text(ENGLISH, note) for note in quality.notes)


def test_a_bar_of_the_future_does_not_make_a_symbol_fresh(silver_store: SilverStore) -> None:
    put(silver_store, [bar("VNM", "2025-03-12"), bar("VNM", "2025-03-20"), bar("FPT", "2025-03-20")])
    consume(silver_store)
    quality = assess(silver_store, NOW, SETTINGS)
    assert [(entry.symbol, entry.last_day, entry.behind) for entry in quality.symbols] == [
        ("VNM", date(2025, 3, 12), 1)
    ]


def test_a_database_of_somebody_else_has_a_report_without_a_history(postgres_database: str) -> None:
    """Made from the specification alone: none of our own tables is there."""
    ask(postgres_database, init_script())
    price = "20000, 20000, 20000, 20000, 5"
    ask(postgres_database, f"INSERT INTO ta_silver VALUES ('VNM', '{DAYS[-1]}', {price})")
    with closing(open_store(postgres_database)) as store:
        quality = assess(store, NOW, SETTINGS)
    assert [(entry.symbol, entry.present, entry.revisions) for entry in quality.symbols] == [("VNM", 1, 0)]
    assert any("no silver_* tables" in note_text(ENGLISH, note) for note in quality.notes)


def test_absurd_prices_do_not_stop_the_report(silver_store: SilverStore) -> None:
    """A double of PostgreSQL refuses to overflow and to underflow; the rules let every finite price pass."""
    day, before = DAYS[-1].isoformat(), DAYS[-2].isoformat()
    for number, (price, multiplier) in enumerate(
        [(1.7e308, 1000.0), (5e-324, 1e-300), (5e-324, 1.0), (0.0, 1e308), (1.0, 0.0), (1e300, -1e300), (1.0, 1e-308)]
    ):
        prices = dict.fromkeys(("open", "high", "low", "close", "vwap"), price)
        symbol = f"AA{chr(65 + number)}"
        put(silver_store, [bar(symbol, on, **prices, price_multiplier=multiplier) for on in (before, day)])
    put(silver_store, [bar("ZZZ", before, vwap=-1e308), bar("ZZZ", day, vwap=1e-320)])
    assert consume(silver_store).rejects == 0
    quality = assess(silver_store, NOW, SETTINGS)
    assert len(quality.symbols) == 8
    assert quality.band_breaks == []


def test_a_fall_to_nothing_is_a_warning(silver_store: SilverStore) -> None:
    nothing = dict.fromkeys(("open", "high", "low", "close", "volume"), 0)
    put(silver_store, [bar("VNM", DAYS[-2].isoformat()), bar("VNM", DAYS[-1].isoformat(), **nothing)])
    consume(silver_store)
    [found] = assess(silver_store, NOW, SETTINGS).band_breaks
    assert (found.day, found.change) == (DAYS[-1], -1.0)


@pytest.mark.parametrize("days", [0, 2_501])
def test_a_window_has_bounds(tmp_path: Path, days: int) -> None:
    with pytest.raises(CallerError, match="1 to 2500"):
        assess(open_store(str(tmp_path / "never opened")), NOW, ReportSettings(days=days))


def test_each_missing_day_never_came_or_was_rejected_by_a_letter(silver_store: SilverStore, silver_url: str) -> None:
    days = DAYS[-6:]
    good = [bar("AAA", days[0].isoformat()), bar("AAA", days[3].isoformat())]
    put(silver_store, [*good, bar("AAA", days[1].isoformat(), volume=-1), bar("BBB", days[0].isoformat())])
    # Twice rejected: the last letter counts. In small letters it is the same symbol, refused for that.
    put(silver_store, [bar("AAA", days[4].isoformat(), close=-1), bar("aaa", f"{days[4]}T00:00:00")])
    put(silver_store, [bar("AAA", days[3].isoformat(), volume=-1), bar("AAA", "someday", volume=-1)])
    consume(silver_store)
    found = assess(silver_store, NOW, ReportSettings(6, STOPPED_AFTER))
    entry = entry_of(found, "AAA")
    assert entry.cells == PRESENT + REJECTED + MISSING + PRESENT + REJECTED + MISSING
    assert (entry.missing, entry.expected, entry.behind) == (4, 6, 2)
    letters = dict(ask(silver_url, "SELECT rule_id, max(id) FROM task_q_dlq WHERE rule_id <> 'ta_volume' GROUP BY 1"))
    [(volume,)] = ask(silver_url, "SELECT min(id) FROM task_q_dlq WHERE rule_id = 'ta_volume'")
    assert entry.rejections == {
        days[1]: Rejection("ta_volume", volume),
        days[4]: Rejection("ta_symbol", letters["ta_symbol"]),
    }
    assert entry_of(found, "BBB").rejections == {}
    told = next(each for each in document(found)["symbols"] if each["symbol"] == "AAA")
    assert told["never_came"] == 2
    assert told["missing_rejected"][0] == {"day": days[1].isoformat(), "rule": "ta_volume", "letter": volume}
    assert gaps_text(ENGLISH, entry, found.days, 2) == (
        f"{days[5]} never came, {days[4]} rejected by ta_symbol, letter {letters['ta_symbol']} and 2 more"
    )


def test_a_symbol_whose_last_bar_was_rejected_is_late_for_that_reason(silver_store: SilverStore) -> None:
    put(silver_store, [bar("AAA", DAYS[-2].isoformat()), bar("AAA", DAYS[-1].isoformat(), volume=-1)])
    consume(silver_store)
    found = assess(silver_store, NOW, ReportSettings(6, STOPPED_AFTER))
    [late] = found.late
    assert late_text(ENGLISH, late, found.last_closed).startswith("rejected by ta_volume, letter ")
    assert "bị ta_volume từ chối" in str(page(found, TEXTS.of("vi")))


def test_symbols_that_are_late_by_one_rule_share_a_row_with_their_letters(silver_store: SilverStore) -> None:
    symbols = ["AAA", "BBB", "CCC"]
    put(silver_store, [bar(symbol, DAYS[-2].isoformat()) for symbol in [*symbols, "DDD"]])
    put(silver_store, [bar(symbol, DAYS[-1].isoformat(), volume=-1) for symbol in symbols])
    consume(silver_store)
    found = assess(silver_store, NOW, ReportSettings(6, STOPPED_AFTER))
    named = [f"{entry.symbol} (letter {entry.rejections[DAYS[-1]].letter})" for entry in found.late[:3]]
    told = str(page(found))
    assert ", ".join(named) in told
    assert told.count(">rejected by ta_volume<") == 1


def test_steps_are_found_by_an_index_however_many_symbols_there_are(embedded_store: SqliteSilverStore) -> None:
    query = f"EXPLAIN QUERY PLAN {statement('report_ticks')}"
    values = {"first": "2026-01-02", "last": "2026-11-16", "steps": '{"FPT": 100}'}
    plan = [row[-1] for row in embedded_store.connection().execute(query, values)]
    assert any(step.startswith("SEARCH stated USING AUTOMATIC") for step in plan), plan
