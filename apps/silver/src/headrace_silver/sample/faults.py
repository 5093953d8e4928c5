"""Ways to break a record, each filed under the rule that finds it (or the reason, where no rule does).

A fault takes a good payload and gives a bad one. Loose faults put a value where its type does not belong, which only
JSON can say: files with typed columns do without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from headrace_silver.records.values import EXCEPTION, SA_ARTICLE, TA_BAR, UNKNOWN_TASK_TYPE

LABEL = "_breaks"
BEYOND_BIGINT = 2**63

Payload = dict[str, Any]
Change = Callable[[Payload], Any]


@dataclass(frozen=True, slots=True)
class SampleFaults:
    """The faults of one kind of task, by label."""

    typed: Mapping[str, tuple[Change, ...]]
    loose: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)

    def labels(self, loose: bool) -> list[str]:
        return list(dict.fromkeys([*self.typed, *(self.loose if loose else ())]))

    def break_one(self, label: str, payload: Payload, loose: bool, chance: Random) -> Any:
        """The payload, broken so that it earns the label, and labelled."""
        ways = self.typed.get(label, ()) + (self.loose.get(label, ()) if loose else ())
        broken = chance.choice(ways)(payload)
        return {**broken, LABEL: label} if isinstance(broken, dict) else broken


def _with(**changes: Any) -> Change:
    return lambda payload: {**payload, **changes}


def _without(name: str) -> Change:
    return lambda payload: {key: value for key, value in payload.items() if key != name}


def _instead(value: Any) -> Change:
    """Something that is no record at all."""
    return lambda payload: value


def _scaled(name: str, of: str, factor: float) -> Change:
    return lambda payload: {**payload, name: round(payload[of] * factor, 4)}


def _silent_but_moving(payload: Payload) -> Payload:
    return {**payload, "volume": 0, "high": round(payload["high"] * 1.01, 4)}


def _seen_too_early(payload: Payload) -> Payload:
    published = datetime.fromisoformat(payload["publisher_time"])
    return {**payload, "first_seen_time": (published - timedelta(days=1, seconds=1)).isoformat()}


def _cut(payload: Payload) -> Payload:
    return {**payload, "text_normalized": payload["text_normalized"][:119]}


FAULTS = {
    TA_BAR: SampleFaults(
        typed={
            "ta_symbol": (_with(symbol="vnm"), _with(symbol="VN"), _with(symbol="VNM.HM"), _without("symbol")),
            "ta_trade_date": (_with(trade_date="2099-12-31"), _without("trade_date")),
            "ta_price": (_with(open=-1.0), _without("close"), _with(low=-0.01)),
            "ta_price_relation": (_scaled("high", "close", 0.9), _scaled("low", "high", 1.1)),
            "ta_volume": (_with(volume=-100), _without("volume")),
            "ta_zero_volume": (_silent_but_moving,),
            "ta_currency": (_with(currency="   "),),
        },
        loose={
            "ta_payload": (_instead([{LABEL: "ta_payload"}]), _instead(f"{LABEL}: ta_payload")),
            "ta_symbol": (_with(symbol="VNM\n"), _with(symbol=7)),
            "ta_trade_date": (_with(trade_date="31/12/2024"), _with(trade_date="2023-02-30"), _with(trade_date=2024)),
            "ta_price": (_with(high="n/a"), _with(close=True), _with(open="NaN")),
            "ta_volume": (_with(volume=100.5), _with(volume="nhiều")),
            "ta_currency": (_with(currency=704),),
            EXCEPTION: (_with(volume=BEYOND_BIGINT), _with(vwap="cao"), _with(price_multiplier="một nghìn")),
            UNKNOWN_TASK_TYPE: (_with(),),
        },
    ),
    SA_ARTICLE: SampleFaults(
        typed={
            "sa_url": (
                _without("url_canonical"),
                _with(url_canonical="ftp://tin.example/1"),
                _with(url_canonical="https://"),
            ),
            "sa_publisher_time": (_without("publisher_time"), _with(publisher_time="2099-12-31T00:00:00+00:00")),
            "sa_first_seen": (_seen_too_early,),
            "sa_text": (_cut, _without("text_normalized")),
            "sa_content_hash": (_without("content_hash"), _with(content_hash="  ")),
            "sa_symbols": (_with(symbols=["FPT", "CVNM2401"]), _with(symbols=["vnm"])),
            "sa_source_domain": (_without("source_domain"), _with(source_domain=" ")),
        },
        loose={
            "sa_payload": (_instead([{LABEL: "sa_payload"}]), _instead(f"{LABEL}: sa_payload")),
            "sa_publisher_time": (_with(publisher_time="hôm qua"), _with(publisher_time=1_700_000_000)),
            "sa_first_seen": (_with(first_seen_time="không rõ"),),
            "sa_symbols": (_with(symbols="FPT"), _with(symbols=["FPT", 7])),
            EXCEPTION: (_with(hype_raw="cao"), _with(account_weights_applied="có"), _with(topic_tags="thép")),
            UNKNOWN_TASK_TYPE: (_with(),),
        },
    ),
}
# What a task of a type that nobody handles is called.
UNKNOWN_KINDS = {TA_BAR: "ta.tick", SA_ARTICLE: "sa.comment"}
