"""The rules as data: what a record must satisfy before it is written, in the specification's order.

A rule sees one record and a yardstick that is the same for the whole batch; it asks nobody. The first rule that
a record fails is the `rule_id` of its dead letter. `sa_language` never fails and is listed because the
specification numbers it; `ta_currency` fails only where something is stated that is no text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.errors import CallerError
from headrace.services import Sources, read, setting
from headrace_silver.records import rule_checks
from headrace_silver.records.payloads import NotAnObject
from headrace_silver.records.rule_checks import TEXT_CHARS_MIN, Yardstick
from headrace_silver.records.shown_text import shown
from headrace_silver.records.symbol_patterns import NotLinear, symbol_pattern
from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar

PREFIX = "SILVER_"
SYMBOL_PATTERN_VARIABLE = f"{PREFIX}SYMBOL_PATTERN"
SYMBOL_PATTERN = "^[A-Z]{3,7}$"

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class RuleSettings:
    """What may be set about the rules: the pattern that a symbol matches from end to end."""

    symbol_pattern: str = setting(SYMBOL_PATTERN, "what a symbol matches from end to end")

    def __post_init__(self) -> None:
        told = f"{SYMBOL_PATTERN_VARIABLE} = {shown(self.symbol_pattern)}"
        try:
            symbol_pattern(self.symbol_pattern)
        except NotLinear as error:
            raise CallerError(
                f"{told} cannot be matched in bounded time: {error}",
                "characters, classes, groups, | ? * + {m,n} and ^ $ at the ends; no looking around, no \\b, no \\1",
            ) from None
        except (re.error, RecursionError, OverflowError) as error:
            raise CallerError(
                f"{told} is not a regular expression: {error}",
                f"write something like {SYMBOL_PATTERN}, or leave it out",
            ) from None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> RuleSettings:
        """The settings that the environment states; an empty variable states nothing."""
        return read(cls, Sources(PREFIX, environment))


@dataclass(frozen=True, slots=True)
class Rule(Generic[Record]):
    """`check` says whether a record is good; `evidence` shows what was wrong, from the payload as it was sent."""

    id: str
    kind: str
    sentence: str
    check: Callable[[Record, Yardstick], bool]
    evidence: Callable[[Mapping[str, Any], Record, Yardstick], str]

    def message(self, payload: Mapping[str, Any], record: Record, yardstick: Yardstick) -> str:
        """The sentence, and what this record has instead."""
        return f"{self.sentence} Here: {self.evidence(payload, record, yardstick)}."


def stated(payload: Mapping[str, Any], *fields: str) -> str:
    """The named fields as the payload states them."""
    return ", ".join(f"{field}={shown(payload[field])}" if field in payload else f"no {field}" for field in fields)


def _states(*fields: str) -> Callable[[Mapping[str, Any], Any, Yardstick], str]:
    return lambda payload, record, yardstick: stated(payload, *fields)


def _is_object(payload: object, yardstick: Yardstick) -> bool:
    return type(payload) is dict


def _why_no_object(nothing: Mapping[str, Any], payload: dict[str, Any] | NotAnObject, yardstick: Yardstick) -> str:
    return payload.why if isinstance(payload, NotAnObject) else stated(payload)


def _first_seen_evidence(payload: Mapping[str, Any], article: Article, yardstick: Yardstick) -> str:
    times = stated(payload, "first_seen_time", "publisher_time")
    if payload.get("first_seen_time") is not None:
        return times
    return f"{times}, and the task was first seen at {article.first_seen_time.isoformat()}"


def _symbol_evidence(payload: Mapping[str, Any], bar: Bar, yardstick: Yardstick) -> str:
    return f"{stated(payload, 'symbol')}, and the pattern is {yardstick.symbol_pattern}"


def _symbols_evidence(payload: Mapping[str, Any], article: Article, yardstick: Yardstick) -> str:
    symbols = payload["symbols"]
    if not isinstance(symbols, list):
        return stated(payload, "symbols")
    place, symbol = next((place, s) for place, s in enumerate(symbols) if not rule_checks.is_symbol(s, yardstick))
    return f"symbols[{place}]={shown(symbol)}, and the pattern is {yardstick.symbol_pattern}"


TA_PAYLOAD: Rule[dict[str, Any] | NotAnObject] = Rule(
    "ta_payload",
    TA_BAR,
    "The payload is a JSON object, or a JSON string that holds one.",
    _is_object,
    _why_no_object,
)
SA_PAYLOAD: Rule[dict[str, Any] | NotAnObject] = Rule(
    "sa_payload", SA_ARTICLE, TA_PAYLOAD.sentence, _is_object, _why_no_object
)

BAR_RULES: tuple[Rule[Bar], ...] = (
    Rule(
        "ta_symbol",
        TA_BAR,
        f"The symbol matches the pattern of symbols ({SYMBOL_PATTERN_VARIABLE}) from end to end.",
        rule_checks.ta_symbol,
        _symbol_evidence,
    ),
    Rule(
        "ta_trade_date",
        TA_BAR,
        "The trade date is a day written YYYY-MM-DD (or a time at midnight) and not in the future in Vietnam.",
        rule_checks.ta_trade_date,
        lambda payload, bar, yardstick: f"{stated(payload, 'trade_date')}, and today is {yardstick.today}",
    ),
    Rule(
        "ta_price",
        TA_BAR,
        "Open, high, low and close are finite numbers and at least 0.",
        rule_checks.ta_price,
        _states("open", "high", "low", "close"),
    ),
    Rule(
        "ta_price_relation",
        TA_BAR,
        "High is at least open, close and low; low is at most open and close.",
        rule_checks.ta_price_relation,
        _states("open", "high", "low", "close"),
    ),
    Rule("ta_volume", TA_BAR, "The volume is a whole number and at least 0.", rule_checks.ta_volume, _states("volume")),
    Rule(
        "ta_zero_volume",
        TA_BAR,
        "Without volume the four prices are equal.",
        rule_checks.ta_zero_volume,
        _states("volume", "open", "high", "low", "close"),
    ),
    Rule(
        "ta_currency",
        TA_BAR,
        "The currency is text; none stated means VND.",
        rule_checks.ta_currency,
        _states("currency"),
    ),
)

ARTICLE_RULES: tuple[Rule[Article], ...] = (
    Rule(
        "sa_url",
        SA_ARTICLE,
        "The canonical URL begins with http:// or https://, names a host and has no blanks or control characters.",
        rule_checks.sa_url,
        _states("url_canonical"),
    ),
    Rule(
        "sa_publisher_time",
        SA_ARTICLE,
        "The publisher's time is an ISO 8601 time (UTC unless it names an offset), at most 5 minutes from now.",
        rule_checks.sa_publisher_time,
        lambda payload, article, yardstick: (
            f"{stated(payload, 'publisher_time')}, and the limit is {yardstick.latest.isoformat()}"
        ),
    ),
    Rule(
        "sa_first_seen",
        SA_ARTICLE,
        "The article was first seen no earlier than a day before it was published; "
        "where first_seen_time is missing, the task's own time counts.",
        rule_checks.sa_first_seen,
        _first_seen_evidence,
    ),
    Rule(
        "sa_language",
        SA_ARTICLE,
        "The language is vi or en; any other is written as unknown and does not fail.",
        rule_checks.sa_language,
        _states("language"),
    ),
    Rule(
        "sa_text",
        SA_ARTICLE,
        f"The text has at least {TEXT_CHARS_MIN} characters.",
        rule_checks.sa_text,
        lambda payload, article, yardstick: (
            f"{stated(payload, 'text_normalized')}, {len(article.text_normalized)} characters"
        ),
    ),
    Rule(
        "sa_content_hash",
        SA_ARTICLE,
        "The content hash is text and not empty.",
        rule_checks.sa_content_hash,
        _states("content_hash"),
    ),
    Rule(
        "sa_symbols",
        SA_ARTICLE,
        "The symbols, if there are any, are a list and each matches the pattern of ta_symbol.",
        rule_checks.sa_symbols,
        _symbols_evidence,
    ),
    Rule(
        "sa_source_domain",
        SA_ARTICLE,
        "The source domain is text and not empty.",
        rule_checks.sa_source_domain,
        _states("source_domain"),
    ),
)

RULES: tuple[Rule[Any], ...] = (TA_PAYLOAD, *BAR_RULES, SA_PAYLOAD, *ARTICLE_RULES)
