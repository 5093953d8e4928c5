"""The sample: deterministic, plausible, and every bad row is found by the rule that it says it breaks."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from silver_desk import ask

from headrace_silver.market.calendar import CLOSES_AT, VIETNAM, is_trading_day, last_closed_day
from headrace_silver.market.price_bands import BANDS, HOSE, is_on_tick
from headrace_silver.queue.consumer import ConsumeSettings, Mode, TaskConsumer
from headrace_silver.queue.producer import put_tasks
from headrace_silver.records.judgement import judge
from headrace_silver.records.record_files import FileReading, read_tasks
from headrace_silver.records.rule_checks import TEXT_CHARS_MIN
from headrace_silver.records.rules import RULES, RuleSettings
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Task
from headrace_silver.sample.files import incoming, write_folder
from headrace_silver.sample.generator import Sample, SamplePlan, known_labels, sample
from headrace_silver.sample.words import ODD_TICKERS
from headrace_silver.stores.silver_store import SilverStore

LAST = date(2026, 1, 30)
NOW = datetime(2026, 2, 1, tzinfo=UTC)
# As docs/silver.md shows it: funds, covered warrants and tickers with a digit as well.
WIDE_PATTERN = "^[A-Z][A-Z0-9]{2,7}$"
SMALL = SamplePlan(LAST, symbols=60, days=60, articles=1_400, bad=0.1)


def found(samples: list[Sample], settings: RuleSettings | None = None) -> dict[int, str]:
    """What the rules say of each bad one: the rule, or the reason."""
    tasks = [Task(place, each.kind, json.dumps(each.payload), NOW) for place, each in enumerate(samples)]
    rejects = judge(tasks, NOW, settings or RuleSettings()).rejects
    return {reject.task_id: reject.rule_id or reject.reason for reject in rejects}


def test_every_bad_row_is_found_by_the_rule_it_breaks() -> None:
    samples = list(sample(SMALL))
    assert len(samples) > 4_900
    assert found(samples) == {place: each.breaks for place, each in enumerate(samples) if each.breaks}
    assert {each.breaks for each in samples} == {None, *known_labels()}


def test_every_rule_that_can_fail_is_broken_by_some_row() -> None:
    never = {"sa_language"}
    assert {rule.id for rule in RULES} - never == set(known_labels()) - {"exception", "unknown_task_type"}


def test_the_database_agrees(silver_store: SilverStore, silver_url: str) -> None:
    samples = list(sample(SMALL))
    put_tasks(silver_store, incoming(samples))
    TaskConsumer(silver_store, ConsumeSettings(), Mode.DRAIN, line=lambda _: None).run()
    letters = ask(silver_url, "SELECT rule_id, reason, CAST(payload AS TEXT) FROM task_q_dlq")
    labels = Counter((rule or reason, _label(payload)) for rule, reason, payload in letters)
    assert labels == Counter((each.breaks, _label(json.dumps(each.payload))) for each in samples if each.breaks)
    assert all(rule == label for rule, label in labels)


def _label(payload: str) -> str | None:
    stated = re.search(r'_breaks"?: ?"?(\w+)', payload)
    return stated[1] if stated else None


def test_the_same_plan_gives_the_same_sample() -> None:
    plan = SamplePlan(LAST, symbols=20, days=20, articles=50)
    assert list(sample(plan)) == list(sample(plan))
    assert list(sample(plan)) != list(sample(SamplePlan(LAST, 20, 20, 50, seed=2)))


def test_nothing_is_bad_unless_it_is_asked_for() -> None:
    samples = list(sample(SamplePlan(LAST, symbols=120, days=20, articles=300, bad=0)))
    assert found(samples) == {}
    assert len({each.payload["symbol"] for each in samples if each.kind == TA_BAR}) == 120


def test_one_rule_can_be_asked_for() -> None:
    samples = list(sample(SamplePlan(LAST, symbols=50, days=50, articles=0, bad={"ta_price": 0.2})))
    share = len(found(samples)) / len(samples)
    assert set(found(samples).values()) == {"ta_price"}
    assert 0.15 < share < 0.25


def test_funds_and_warrants_are_there_and_pass_a_wider_pattern() -> None:
    samples = [each for each in sample(SMALL) if each.kind == TA_BAR]
    odd = {place for place, each in enumerate(samples) if _symbol(each) in ODD_TICKERS}
    assert {_symbol(samples[place]) for place in odd} >= {"CVNM2401", "E1VFVN30"}
    said = found(samples)
    assert {said[place] for place in odd} == {"ta_symbol"}
    assert odd & set(found(samples, RuleSettings(WIDE_PATTERN))) == set()


def _symbol(each: Sample) -> Any:
    return each.payload.get("symbol") if isinstance(each.payload, dict) else None


def test_bars_stand_on_trading_days_ticks_and_inside_the_limits() -> None:
    bars = [each.payload for each in sample(SamplePlan(LAST, symbols=60, days=120, articles=0, bad=0))]
    before: dict[str, float] = {}
    assert all(is_trading_day(date.fromisoformat(bar["trade_date"])) for bar in bars)
    for bar in bars:
        if bar.get("currency") == "USD" or bar["source"] == "correction":
            continue
        times = bar.get("price_multiplier", 1)
        assert all(is_on_tick(HOSE, bar["symbol"], bar[name] * times) for name in ("open", "high", "low", "close"))
        last = before.get(bar["symbol"], bar["close"] * times / (1 + BANDS[HOSE]))
        if bar["symbol"] in before:
            assert last * (1 - BANDS[HOSE]) - 1e-6 <= bar["low"] * times
            assert bar["high"] * times <= last * (1 + BANDS[HOSE]) + 1e-6
        before[bar["symbol"]] = bar["close"] * times
    assert max(bar["trade_date"] for bar in bars) == LAST.isoformat()


def test_articles_are_long_enough_and_in_two_languages() -> None:
    plan = SamplePlan(LAST, symbols=10, days=20, articles=500, bad=0)
    articles = [each.payload for each in sample(plan) if each.kind == SA_ARTICLE]
    assert min(len(article["text_normalized"]) for article in articles) >= TEXT_CHARS_MIN
    languages = Counter(article["language"] for article in articles)
    assert languages["vi"] > languages["en"] > 50
    assert {"fr", "zh"} & set(languages)
    urls = Counter(article["url_canonical"] for article in articles)
    assert max(urls.values()) == 2
    assert any("symbols" not in article for article in articles)


def test_nothing_is_published_after_the_last_session_of_the_sample() -> None:
    """Its last day may be today: whoever makes it right after the close must not find articles of the evening."""
    plan = SamplePlan(LAST, symbols=10, days=2, articles=500, bad=0)
    times = [each.payload["publisher_time"] for each in sample(plan) if each.kind == SA_ARTICLE]
    close = datetime.combine(LAST, CLOSES_AT, VIETNAM)
    assert last_closed_day(close) == LAST
    assert max(map(datetime.fromisoformat, times)) < close


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_file_says_the_same_as_the_sample(form: str, tmp_path: Path) -> None:
    plan = SamplePlan(LAST, symbols=50, days=20, articles=400, bad=0.2, loose=form == "jsonl")
    samples = list(sample(plan))
    names = write_folder(samples, tmp_path, form)
    assert [Path(name).name for name in names] == [f"bars.{form}", f"articles.{form}"]
    tasks = [task for name in names for task in read_tasks(name, FileReading())]
    assert [task.kind for task in tasks] == [each.kind for each in samples]
    rejects = judge(
        [Task(n, task.kind, task.payload, NOW) for n, task in enumerate(tasks)], NOW, RuleSettings()
    ).rejects
    assert {reject.task_id: reject.rule_id or reject.reason for reject in rejects} == {
        place: each.breaks for place, each in enumerate(samples) if each.breaks
    }
    assert {each.kind for each in samples} >= {TA_BAR, SA_ARTICLE}
