"""A result is a list of values without names: each must arrive in its own column, in both dialects."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import msgspec
import pytest

from headrace_smap.analytics.modules import Draft, Pipeline
from headrace_smap.analytics.work import COLUMNS, Work, analyse
from headrace_smap.database import open_database
from headrace_smap.project.export import NAMES
from headrace_smap.settings import SmapSettings

NOW = datetime(2025, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
RAW = {
    "id": "post_id",
    "platform": "platform",
    "text": "raw",
    "author": {"id": "author_id", "name": "author_name", "followers": 1},
    "metrics": {"likes": 2, "comments": 3, "shares": 4, "views": 5},
    "published_at": "2024-12-31T23:00:00-02:00",
    "url": "url",
    "simulated": True,
}
FOUND: dict[str, object] = {
    **{name: name for name in ("text", "language", "intent", "sentiment", "risk")},
    **{name: [name] for name in ("hashtags", "spam_reasons", "keywords", "phrases", "aspects", "missing")},
    "aspect_sentiments": {"a": {"label": "negative", "score": -0.5}},
    "uncertain": {"sentiment": {"rules": "neutral", "margin": 0.05}},
    **{"intent_score": 0.1, "spam_score": 0.2, "sentiment_score": -1e-05, "engagement_rate": 1e20, "impact": 0.4},
    **{"is_spam": True, "reach": 2**60, "engagement": 7, "risk_score": 0.6},
}
STORED: dict[str, object] = {
    **FOUND,
    **{name: name for name in ("post_id", "platform", "author_id", "author_name", "url", "keyword", "crawled_at")},
    **{"followers": 1, "likes": 2, "comments": 3, "shares": 4, "views": 5, "minio_path": "a/b.json"},
    **{"published_at": datetime(2025, 1, 1, 1, tzinfo=UTC), "day": date(2025, 1, 1), "analyzed_at": NOW},
    "simulated": True,
    "timezone": "Asia/Ho_Chi_Minh",
}


class Distinct:
    """Leaves another value in every field."""

    name = "distinct"
    version = "1"

    def apply(self, draft: Draft) -> None:
        for field, value in FOUND.items():
            setattr(draft, field, value)


def analysed_to_nothing() -> bytes:
    """A row of the same post whose every value will be overwritten."""
    raw = msgspec.json.encode({"id": "-", "platform": "-", "text": "-"})
    ((found, _),) = analyse(Pipeline([]), [Work("p", "a/b.json", raw)], NOW.replace(year=2020))
    assert found is not None
    return found.row


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_every_value_is_found_in_its_column(
    request: pytest.FixtureRequest, embedded: SmapSettings, dialect: str
) -> None:
    if dialect == "postgres":
        embedded = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    modules = Pipeline([Distinct()])
    ((found, fault),) = analyse(
        modules, [Work("p", "a/b.json", msgspec.json.encode(RAW), "keyword", "crawled_at")], NOW
    )
    assert found is not None, fault
    assert len(msgspec.json.decode(found.row)) == len(COLUMNS) == len(set(COLUMNS))
    embedded.home.mkdir()
    async with open_database(embedded.engine_url) as database:
        for row in (analysed_to_nothing(), found.row):
            await database.rows("upsert_post_analytics", rows=f"[{row.decode()}]", projects=("p",))
        (stored,) = await database.rows("project_results", project="p", after="", room=2)
    assert dict(zip(NAMES, stored, strict=True)) == {**STORED, "model_version": modules.model_version}


@pytest.mark.parametrize(
    ("told", "written", "kept"),
    [
        ("of the message", "of the post", "of the message"),
        ("", "of the post", "of the post"),
        (" ", "of the post", "of the post"),
        ("", "a\0b" + "c" * 200, "a\ufffdb" + "c" * 197),
        ("", "\ud800", "\ufffd"),
        *(("", wrong, "keywords") for wrong in ("", "  ", None, 7, ["of the post"], {"a": 1})),
    ],
)
def test_a_post_is_kept_under_the_keyword_it_was_found_by(told: str, written: object, kept: str) -> None:
    """Also where its text does not hold it: what was searched for stands in the post that a crawler wrote."""
    raw = json.dumps({**RAW, "keyword": written}).encode()
    ((found, fault),) = analyse(Pipeline([Distinct()]), [Work("p", "a/b.json", raw, told)], NOW)
    assert found is not None, fault
    assert msgspec.json.decode(found.row)[COLUMNS.index("keyword")] == kept


def test_a_post_without_any_keyword_has_none() -> None:
    assert msgspec.json.decode(analysed_to_nothing())[COLUMNS.index("keyword")] == ""
