"""Payloads that pass every rule, and the shortest way to have one judged."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import HealthCheck, settings

from headrace_silver.records.judgement import judge
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar, Reject, Task

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SEEN = NOW - timedelta(hours=1)
ABSENT = object()
# An example takes a millisecond, but a busy machine may stop for longer than Hypothesis likes.
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NOT_TEXT: list[Any] = [ABSENT, None, 5, 1.5, True, [], ["FPT"], {}]

BAR: dict[str, Any] = {
    "symbol": "FPT",
    "trade_date": "2026-02-27",
    "open": 10.0,
    "high": 12.0,
    "low": 9.0,
    "close": 11.0,
    "volume": 100,
}
ARTICLE: dict[str, Any] = {
    "url_canonical": "https://tin.vn/fpt-1.html",
    "source_domain": "tin.vn",
    "publisher_time": "2026-03-02T11:00:00Z",
    "text_normalized": "á" * 120,
    "content_hash": "c0ffee",
}


def changed(payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The payload with other fields; ABSENT removes one."""
    return {name: value for name, value in {**payload, **fields}.items() if value is not ABSENT}


def judged(kind: str, payload: Any, rules: RuleSettings | None = None, now: datetime = NOW) -> Bar | Article | Reject:
    """What one task becomes; a payload that is no text is sent as JSON."""
    text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
    result = judge([Task(7, kind, text, SEEN)], now, rules or RuleSettings())
    [outcome] = [record for _, record in (*result.bars, *result.articles)] + result.rejects
    return outcome


def bar(**fields: Any) -> Bar | Article | Reject:
    return judged(TA_BAR, changed(BAR, **fields))


def article(**fields: Any) -> Bar | Article | Reject:
    return judged(SA_ARTICLE, changed(ARTICLE, **fields))


def rule_of(outcome: Bar | Article | Reject) -> str | None:
    """The rule that failed, the reason if it was none, None if the record passed."""
    return (outcome.rule_id or outcome.reason) if isinstance(outcome, Reject) else None
