"""Aggregates count each result once, and the report tells what the results say."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from html.parser import HTMLParser
from typing import Any

import pytest
from smap_results import AT, post, store

from headrace.ports import Delivery, Event
from headrace_smap import envelope
from headrace_smap.analytics.modules.intent import INTENTS as NAMED_INTENTS
from headrace_smap.database import Database
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.report.content import gather
from headrace_smap.insight.report.figures import PostFigures, every_day, two_periods
from headrace_smap.insight.report.page import headline, report_page
from headrace_smap.insight.report.projects_page import projects_page
from headrace_smap.insight.report.reader import ReportReader
from headrace_smap.insight.report.view import INTENTS, ReportView
from headrace_smap.insight.report.words import TEXTS


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


def tile(html: str, name: str) -> str:
    """What a tile shows, without its sign."""
    found = re.search(rf"<dt>{name}</dt><dd>(.*?)</dd>", html)
    assert found
    return re.sub(r"<span.*?</span>|<[^>]*>", "", found[1]).strip()


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
    figures = report.figures
    assert (report.posts, figures.sentiments["positive"], figures.risky, report.spam) == (10, 4, 1, None)
    assert {day: figures.posts for day, figures in report.days.items()} == {"2025-01-01": 1, "unknown": 9}
    assert [row.minio_path for row in report.top] == ["raw/tiktok/p/0.json"]
    html = report_page(report)
    assert headline(report) == "10 posts analysed so far: 40 % positive, 30 % negative."
    assert ">unknown</text>" in html
    assert tile(html, "High risk") == "1"
    assert "it does not tell which are spam" in html


async def test_of_two_equal_counts_that_of_the_results_is_told(database: Database) -> None:
    await store(database, *(post(number) for number in range(3)))
    await Aggregator(database).handle(told(*(post(number, sentiment="negative") for number in range(3))))
    report = await gather(database, "p")
    assert report is not None
    assert dict(report.figures.sentiments) == {"positive": 1, "negative": 1, "neutral": 1}


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
    text = report_page(report).partition('id="top"')[2]
    assert "user 1" in text
    assert re.findall(r'href="([^"]*)"', text) == ["posts?#posts"]


async def test_the_report_says_what_the_results_say(database: Database) -> None:
    await store(database, *(post(number) for number in range(9)))
    report = await gather(database, "p")
    assert report is not None
    assert report.spam == 1
    assert dict(report.figures.sentiments) == {"positive": 3, "negative": 2, "neutral": 3}, "without the spam"
    assert {name: counted.total() for name, counted in report.platforms.items()} == {"tiktok": 5, "facebook": 3}
    assert report.days["2025-01-01"].posts == 3
    assert report.aspects["battery"]["negative"] == 2
    assert report.kinds["spam"] == {"genuine": 8, "spam": 1}
    assert [row.minio_path for row in report.top[:2]] == ["raw/tiktok/p/8.json", "raw/tiktok/p/6.json"]
    document = report.document()
    assert (document["posts"], document["engagement"], document["risk"]) == (9, 40, {"LOW": 7, "HIGH": 1})
    html = report_page(report)
    assert "Spam is outside all shares and bars: 1 of 9 posts." in html
    assert [tile(html, name) for name in ("Posts", "Positive", "Spam", "High risk")] == ["9", "38 %", "1", "1"]


async def test_phrases_hashtags_and_authors_are_counted_by_sentiment(database: Database) -> None:
    said = {"phrases": ["pin yếu", "giá tốt"], "hashtags": ["VF3", "vinfast"]}
    await store(
        database,
        *(post(number, **said, author_name="Lan") for number in range(3)),
        post(3, hashtags=["vf3"], author_name=None, author_id="id 3"),
        post(7, **said, author_name="Spammer"),
    )
    report = await gather(database, "p")
    assert report is not None
    assert report.names["phrase"] == {name: {"positive": 1, "negative": 1, "neutral": 1} for name in said["phrases"]}
    assert {name: counted.total() for name, counted in report.names["hashtag"].items()} == {"#vf3": 4, "#vinfast": 3}
    assert {name: counted.total() for name, counted in report.names["author"].items()} == {"Lan": 3, "id 3": 1}
    assert report.document()["hashtags"]["#vf3"]["positive"] == 2
    html = report_page(report)
    assert "posts?posts.spam=genuine&amp;posts.topic=pin+y%E1%BA%BFu#posts" in html
    assert "posts?posts.spam=genuine&amp;posts.author=Lan&amp;posts.sentiment=negative#posts" in html


async def test_the_last_days_are_compared_with_as_many_before(database: Database) -> None:
    days = {number: date(2025, 1, 1 + number).isoformat() for number in range(8)}
    await store(database, *(post(number, day=day, is_spam=False) for number, day in days.items()))
    report = await gather(database, "p")
    assert report is not None
    before, after = two_periods(report.days) or (None, None)
    assert before is not None
    assert after is not None
    assert [(str(period.first), str(period.last), period.figures.posts) for period in (before, after)] == [
        ("2025-01-01", "2025-01-04", 4),
        ("2025-01-05", "2025-01-08", 4),
    ]
    assert (before.figures.risky, after.figures.risky) == (0, 1)
    html = report_page(report, ReportView(length=1))
    assert "The last 1 day against the one before" in html
    assert "+100.0 points" in html
    assert 'href="?days=4#periods"' in html
    assert two_periods({"2025-01-01": report.figures, "unknown": report.figures}) is None


async def test_a_project_is_shown_beside_another(database: Database) -> None:
    await database.rows("truth_open", project="q", now=AT)
    await store(database, *(post(number) for number in range(3)))
    await store(database, *(post(number, project_id="q", sentiment="negative") for number in range(4)))
    reader = ReportReader(database)
    html = str(await reader.report("p", {"beside": "q"}))
    assert '<option value="q" selected>q</option>' in html
    assert "100.0 %" in html.partition('id="beside"')[2]
    assert "Figures of each project" not in str(await reader.report("p", {"beside": "nobody"}))
    assert "Figures of each project" in str(await reader.file("p", {}, ["q"]))


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
    assert page.tags.count("script") == 1, "that of the kit"
    assert page.tags.count("svg") >= 6
    assert "&lt;script&gt;" in html
    assert headline(report) == "9 posts analysed so far: 38 % positive, 25 % negative."
    assert headline(report, ReportView(TEXTS.of("vi"))) == ("Đến nay đã phân tích 9 bài: 38 % tích cực, 25 % tiêu cực.")


async def test_an_empty_project_has_a_page_and_an_unknown_one_none(database: Database) -> None:
    report = await gather(database, "p")
    assert report is not None
    assert "No results yet." in report_page(report)
    assert await gather(database, "nobody") is None


def test_days_on_which_nobody_wrote_are_shown() -> None:
    written = {day: PostFigures(Counter(neutral=1)) for day in ("2025-01-02", "2025-01-04", "unknown")}
    shown = every_day(written, ("2025-01-01", "2025-01-05"))
    assert {day: figures.posts for day, figures in shown.items()} == {
        "2025-01-01": 0,
        "2025-01-02": 1,
        "2025-01-03": 0,
        "2025-01-04": 1,
        "2025-01-05": 0,
        "unknown": 1,
    }
    assert list(every_day(written, ("some day", "2029-01-01"))) == list(written), "more than can be drawn"
    assert every_day({}, ("2025-01-01", "2025-01-05")) == {}


async def test_an_intent_leads_to_its_posts(database: Database) -> None:
    await store(database, post(1, intent="complaint"), post(2, intent="brand_new"))
    report = await gather(database, "p")
    assert report
    html = report_page(report)
    for intent in ("complaint", "brand_new"):
        assert f'href="posts?posts.spam=genuine&amp;posts.intent={intent}#posts"' in html
    assert INTENTS == NAMED_INTENTS, "each has its words"


async def test_the_list_leads_to_the_reports(database: Database) -> None:
    await database.rows("truth_open", project="a/b <c>", now=AT)
    html = projects_page(await database.rows("report_list", room=10))
    assert 'href="projects/a%2Fb%20%3Cc%3E/report?"' in html
    assert "a/b &lt;c&gt;" in html
    assert "There are no projects yet." in projects_page([])


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
    assert [row.minio_path[-6:-5] for row in report.top] == ["5", "2", "1", "0"], "what is known first, then by risk"
    document = report.document()
    assert (document["engagement"], document["simulated"]) == (5, 1)
    assert document["missing"] == {"views": 4, "followers": 3}
    assert [row["impact"] for row in document["top_posts"]] == [5.0, None, None, None]
    assert [(row["missing"], row["simulated"]) for row in document["top_posts"]][:2] == [
        (["views"], True),
        (missing, False),
    ]
    html = report_page(report)
    assert html.partition('id="top"')[2].count(">unknown<") == 6
    assert "without what was not told: views (4 posts), followers (3 posts)." in html
    vietnamese = report_page(report, ReportView(TEXTS.of("vi")))
    assert vietnamese.partition('id="top"')[2].count(">không rõ<") == 6


async def test_engagement_of_which_nobody_tells_is_unknown(database: Database) -> None:
    await store(database, post(1, engagement=None))
    report = await gather(database, "p")
    assert report is not None
    assert report.document()["engagement"] is None
    assert tile(report_page(report), "Engagement") == "unknown"
