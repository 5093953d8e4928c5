"""What walks through a batch: tasks as fetched, records to write, rejects, and what became of them all.

The classes are not frozen: several hundred thousand are made a second, and freezing triples the cost of each.
Nobody changes one after it was made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime

TA_BAR = "ta.bar"
SA_ARTICLE = "sa.article"

SANITY_FAIL = "sanity_fail"
UNKNOWN_TASK_TYPE = "unknown_task_type"
EXCEPTION = "exception"


@dataclass(slots=True)
class Task:
    """One row of `task_q`: `payload` is JSON text as the database holds it, `first_seen` an aware UTC time."""

    id: int
    kind: str
    payload: str | bytes
    first_seen: datetime


@dataclass(slots=True)
class Bar:
    """One day of one symbol. `currency` and `price_multiplier` are None where the payload does not state them."""

    symbol: str
    trade_date: date
    open: float
    high: float
    low: float
    close: float
    volume: int
    vwap: float | None
    adj_close: float | None
    currency: str | None
    price_multiplier: float | None
    source: str | None
    first_seen_time: datetime
    content_hash: str | None


@dataclass(slots=True)
class Article:
    """One article, known by its canonical URL. `language` is vi, en, unknown, or None where none is stated."""

    url_canonical: str
    source_domain: str
    publisher_time: datetime
    first_seen_time: datetime
    language: str | None
    title: str | None
    text_normalized: str
    content_hash: str
    symbols: list[str] | None
    author: str | None
    topic_tags: list[str] | None
    hype_raw: float | None
    hype_crowd: float | None
    hype_elitist: float | None
    account_weights_applied: bool | None


@dataclass(slots=True)
class Reject:
    """A task that becomes a dead letter. `rule_id` is None unless the reason is `sanity_fail`."""

    task_id: int
    reason: str
    rule_id: str | None
    error_msg: str


@dataclass(slots=True)
class Judged:
    """A batch after the rules: every task is in exactly one of the three lists, in the order of the batch."""

    bars: list[tuple[int, Bar]] = field(default_factory=list)
    articles: list[tuple[int, Article]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


@dataclass(slots=True)
class SettledBatch:
    """A batch after its commit: how many tasks were applied, the rejects (those that only the database found
    included), how many stored bars were overwritten with other values, and what the flag says now (None: it was
    not its turn)."""

    bars: int = 0
    articles: int = 0
    rejects: list[Reject] = field(default_factory=list)
    revisions: int = 0
    slow: bool | None = None
