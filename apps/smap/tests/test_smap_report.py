"""Aggregates count each result once, and the report tells what the results say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from headrace.ports import Delivery, Event
from headrace_smap import envelope
from headrace_smap.analytics.work import COLUMNS
from headrace_smap.database import Database, open_database
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.report_content import gather
from headrace_smap.insight.report_page import headline, list_page, report_page
from headrace_smap.settings import SmapSettings

AT = datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC)
TEXTS = ("Xe đẹp <script>alert(1)</script>", "Pin yếu quá", "bình thường")


def post(number: int, **changes: Any) -> dict[str, Any]:
    """A result as analytics writes it."""
    sentiment = ("positive", "negative", "neutral")[number % 3]
    row: dict[str, Any] = {
        "project_id": "p",
        "minio_path": f"raw/tiktok/p/{number}.json",
        "post_id": str(number),
        "platform": ("tiktok", "facebook")[number % 2],
        "keyword": "VF3",
        "language": "vi",
        "author_name": f"user {number}",
        "published_at": AT.isoformat(),
        "day": date(2025, 1, 1 + number % 4).isoformat(),
        "url": "javascript:alert(1)" if number == 0 else f"https://t.vn/{number}",
        "text": TEXTS[number % 3],
        "hashtags": [],
        "intent": "praise",
        "intent_score": 0.5,
        "is_spam": number == 7,
        "spam_score": 0.0,
        "spam_reasons": [],
        "keywords": ["VF3"],
        "phrases": [],
        "aspects": ["battery"],
        "sentiment": sentiment,
        "sentiment_score": 0.1,
        "aspect_sentiments": {"battery": {"label": sentiment, "score": 0.1}},
        "reach": 10,
        "engagement": 5,
        "engagement_rate": 0.1,
        "impact": float(number),
        "risk": "HIGH" if number == 4 else "LOW",
        "crawled_at": "",
        "analyzed_at": AT.isoformat(),
        "model_version": "m1",
        "risk_score": 0.5,
        "missing": [],
        "simulated": False,
        "uncertain": {},
        "timezone": "Asia/Ho_Chi_Minh",
    }
    return {**row, **changes}


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, embedded: SmapSettings) -> AsyncIterator[Database]:
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("postgres_database"))
    settings.home.mkdir(exist_ok=True)
    async with open_database(settings.engine_url) as opened:
        await opened.rows("truth_open", project="p", now=AT)
        yield opened


async def store(database: Database, *posts: dict[str, Any]) -> None:
    await database.rows(
        "upsert_post_analytics", rows=[[post.get(name) for name in COLUMNS] for post in posts], projects=("p",)
    )


def told(*posts: dict[str, Any]) -> list[Delivery]:
    events = [
        envelope.analysis_finished(
            row["project_id"],
            row["minio_path"],
            {name: row[name] for name in ("post_id", "platform", "sentiment", "risk")},
            AT,
        )
        for row in posts
    ]
    return [Delivery("smap.insight", number, 1, event) for number, event in enumerate(events)]


async def total(database: Database, project: str = "p") -> int:
    return sum(row[4] for row in await database.rows("aggregate_rows", project=project))


async def test_a_result_counts_once_however_often_it_is_told(database: Database) -> None:
    posts = [post(number) for number in range(10)]
    await store(database, *posts)
    aggregator = Aggregator(database)
    noise = Delivery("smap.insight", 99, 1, Event("x", "analysis.finished", b"noise"))
    await aggregator.handle([*told(*posts[:6]), *told(posts[0]), noise])
    await aggregator.handle(told(*posts[4:]))
    rows = await database.rows("aggregate_rows", project="p")
    assert sum(row[4] for row in rows) == 10
    assert sum(row[5] for row in rows) == 1
    assert {row[2] for row in rows} == {"VF3"}
    assert sum(row[4] for row in rows if row[3] == "positive") == 4


async def test_results_of_others_are_counted_without_their_rows(database: Database) -> None:
    await Aggregator(database).handle(told(post(1), post(2)))
    assert [row[:5] for row in await database.rows("aggregate_rows", project="p")] == [
        ("", "facebook", "", "negative", 1),
        ("", "tiktok", "", "neutral", 1),
    ]
    report = await gather(database, "p")
    assert report is not None
    assert (report.posts, report.platforms["tiktok"]["neutral"]) == (2, 1)


async def test_results_of_others_are_counted_beside_ours(database: Database) -> None:
    ours, *others = (post(number) for number in range(10))
    await store(database, ours)
    await Aggregator(database).handle(told(ours, *others))
    report = await gather(database, "p")
    assert report is not None
    assert (report.posts, report.sentiments["positive"], report.risky) == (10, 4, 1)
    assert {day: counted.total() for day, counted in report.days.items()} == {"2025-01-01": 1, "unknown": 9}
    assert [row.path for row in report.top] == ["raw/tiktok/p/0.json"]
    html = report_page(report)
    assert headline(report) == "10 posts analysed so far: 40% positive, 30% negative."
    assert ">unknown</text>" in html
    assert "<dt>High risk</dt><dd>1</dd>" in html


async def test_of_two_equal_counts_that_of_the_results_is_told(database: Database) -> None:
    await store(database, *(post(number) for number in range(3)))
    await Aggregator(database).handle(told(*(post(number, sentiment="negative") for number in range(3))))
    report = await gather(database, "p")
    assert report is not None
    assert dict(report.sentiments) == {"positive": 1, "negative": 1, "neutral": 1}


async def test_aggregates_follow_a_new_analysis(database: Database) -> None:
    posts = [post(number) for number in range(6)]
    await store(database, *posts)
    aggregator = Aggregator(database)
    await aggregator.handle(told(*posts))
    await store(database, *(post(number, sentiment="negative", model_version="m2") for number in range(6)))
    await aggregator.rebuild("p")
    rows = await database.rows("aggregate_rows", project="p")
    assert {row[3] for row in rows} == {"negative"}
    await aggregator.handle(told(*posts))
    assert await total(database) == 6


@pytest.mark.parametrize("url", ["http://[", "https://", "//elsewhere", "data:text/html,x", "http://a\nb[/"])
async def test_an_address_that_is_none_is_no_link_and_breaks_no_page(database: Database, url: str) -> None:
    await store(database, post(1, url=url))
    report = await gather(database, "p")
    assert report is not None
    text = report_page(report)
    assert "user 1" in text
    assert "<a " not in text


async def test_the_report_says_what_the_results_say(database: Database) -> None:
    await store(database, *(post(number) for number in range(9)))
    report = await gather(database, "p")
    assert report is not None
    assert dict(report.sentiments) == {"positive": 3, "negative": 3, "neutral": 3}
    assert {name: counted.total() for name, counted in report.platforms.items()} == {"tiktok": 5, "facebook": 4}
    assert report.days["2025-01-01"].total() == 3
    assert report.aspects["battery"]["negative"] == 3
    assert report.kinds["spam"] == {"genuine": 8, "spam": 1}
    assert [row.path for row in report.top[:2]] == ["raw/tiktok/p/8.json", "raw/tiktok/p/6.json"]
    document = report.document()
    assert (document["posts"], document["engagement"], document["risk"]) == (9, 45, {"LOW": 8, "HIGH": 1})


class Page(HTMLParser):
    """The tags of a page, and what a policy would forbid."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.forbidden: list[tuple[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "style" or name.startswith("on") or (value or "").startswith("javascript:"):
                self.forbidden.append((tag, name))


async def test_the_page_shows_everything_and_runs_nothing(database: Database) -> None:
    await store(database, *(post(number) for number in range(9)))
    report = await gather(database, "p")
    assert report is not None
    html = report_page(report)
    page = Page(html)
    assert page.forbidden == []
    assert "script" not in page.tags
    assert page.tags.count("svg") >= 6
    assert "&lt;script&gt;" in html
    assert headline(report) == "9 posts analysed so far: 33% positive, 33% negative."


async def test_an_empty_project_has_a_page_and_an_unknown_one_none(database: Database) -> None:
    report = await gather(database, "p")
    assert report is not None
    assert "No results yet." in report_page(report)
    assert await gather(database, "nobody") is None


async def test_the_list_leads_to_the_reports(database: Database) -> None:
    await database.rows("truth_open", project="a/b <c>", now=AT)
    html = list_page(await database.rows("report_list", room=10))
    assert 'href="projects/a%2Fb%20%3Cc%3E/report"' in html
    assert "a/b &lt;c&gt;" in html
    assert "There are no projects yet." in list_page([])


async def test_what_is_unknown_is_not_shown_as_nothing(database: Database) -> None:
    unknown = {"reach": None, "engagement": None, "engagement_rate": None, "impact": None}
    missing = ["followers", "views"]
    await store(
        database,
        *(post(number, **unknown, missing=missing, risk_score=float(number)) for number in range(3)),
        post(5, missing=["views"], simulated=True),
    )
    report = await gather(database, "p")
    assert report is not None
    assert [row.path[-6:-5] for row in report.top] == ["5", "2", "1", "0"], "what is known first, then by risk"
    document = report.document()
    assert (document["engagement"], document["simulated"]) == (5, 1)
    assert document["missing"] == {"views": 4, "followers": 3}
    assert [row["impact"] for row in document["top_posts"]] == [5.0, None, None, None]
    assert [(row["missing"], row["simulated"]) for row in document["top_posts"]][:2] == [
        (["views"], True),
        (missing, False),
    ]
    html = report_page(report)
    assert html.count('<td class="n">unknown</td>') == 6
    assert "without what was not told: views (4 posts), followers (3 posts)." in html


async def test_engagement_of_which_nobody_tells_is_unknown(database: Database) -> None:
    await store(database, post(1, engagement=None))
    report = await gather(database, "p")
    assert report is not None
    assert report.document()["engagement"] is None
    assert "<dt>Engagement</dt><dd>unknown</dd>" in report_page(report)
