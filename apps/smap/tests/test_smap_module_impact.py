"""How much a post matters, and what risk it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from smap_module_drafting import NOW, analysed, modules

from headrace_smap.analytics.modules import AnalysisContext, Draft
from headrace_smap.analytics.modules.impact import HALF_LIFE_H, freshness

BAD = "Dịch vụ quá tệ, thất vọng, lừa đảo khách hàng"


def heard(text: str = BAD, hours_ago: float = 0.0, followers: object = None, **metrics: object) -> Draft:
    published_at = (NOW - timedelta(hours=hours_ago)).isoformat()
    return analysed(text, author={"followers": followers}, metrics=metrics, published_at=published_at)


def impact(text: str = BAD, **more: Any) -> float:
    found = heard(text, **more).impact
    assert found is not None
    return found


def test_more_of_anything_never_matters_less() -> None:
    little = impact(views=1_000, likes=10, comments=5, shares=1, followers=100)
    assert little < impact(views=100_000, likes=10, comments=5, shares=1, followers=100)
    assert little < impact(views=1_000, likes=100, comments=5, shares=1, followers=100)
    assert little < impact(views=1_000, likes=10, comments=5, shares=1, followers=1_000_000)


def test_a_share_counts_more_than_a_comment_and_a_comment_more_than_a_like() -> None:
    assert [heard(**{name: 6}).engagement for name in ("likes", "comments", "shares")] == [6, 12, 18]


def test_the_rate_is_engagement_among_those_who_saw_it() -> None:
    draft = heard(views=1_000, likes=50)
    assert (draft.reach, draft.engagement, draft.engagement_rate) == (1_000, 50, 0.05)
    assert heard(views=10, likes=5_000).engagement_rate == 1
    assert heard(views=0, likes=0).engagement_rate == 0


def test_without_views_the_followers_say_how_far_it_carries() -> None:
    assert heard(followers=10_000).reach == 2_000
    assert heard(likes=10).reach == 200


def test_what_is_old_fades_and_what_is_dated_tomorrow_is_new() -> None:
    assert impact(views=10_000, hours_ago=24 * 60) < impact(views=10_000)
    assert freshness(NOW - timedelta(hours=HALF_LIFE_H), NOW) == 0.5
    assert freshness(NOW + timedelta(days=1), NOW) == 1.0
    assert 0 < freshness(None, NOW) < 1


def test_spam_matters_less() -> None:
    spam = "Vay tiền nhanh, chỉ cần CCCD, lh 0912 345 678"
    assert impact(spam, views=10_000) < impact("Tôi ở Hà Nội", views=10_000)


@pytest.mark.parametrize(
    ("views", "shares", "risk"),
    [(10, 0, "LOW"), (3_000, 1, "MEDIUM"), (60_000, 30, "HIGH"), (5_000_000, 9_000, "CRITICAL")],
)
def test_risk_grows_with_the_reach_of_a_bad_word(views: int, shares: int, risk: str) -> None:
    assert heard(views=views, shares=shares).risk == risk


def test_a_good_word_is_no_risk_however_far_it_carries() -> None:
    assert heard("Tuyệt vời, rất hài lòng", views=10**9, shares=10**6).risk == "LOW"


def test_danger_is_a_greater_risk_than_a_scratch() -> None:
    scratch = heard("Xe bị trầy", views=50_000, shares=10)
    danger = heard("Xe bị mất phanh", views=50_000, shares=10)
    assert scratch.risk_score < danger.risk_score


@settings(deadline=None, max_examples=100)
@given(
    st.fixed_dictionaries(
        {name: st.integers(-10, 10**20) | st.none() for name in ("likes", "comments", "shares", "views")}
    ),
    st.integers(-(10**6), 10**6),
)
def test_every_figure_stays_in_its_range(metrics: dict[str, int | None], hours_ago: int) -> None:
    draft = heard(BAD, hours_ago, metrics["likes"], **metrics)
    assert draft.impact is None or 0 <= draft.impact <= 100
    assert draft.engagement_rate is None or 0 <= draft.engagement_rate <= 1
    assert 0 <= draft.author_weight <= 1
    assert draft.reach is None or 0 <= draft.reach <= 10**15
    assert 0 <= draft.risk_score <= 100
    assert (draft.impact is None) == (draft.reach is None)


def test_what_nobody_tells_is_unknown_and_named() -> None:
    draft = analysed(BAD)
    assert (draft.reach, draft.engagement, draft.engagement_rate, draft.impact) == (None, None, None, None)
    assert draft.missing == ["followers", "likes", "comments", "shares", "views", "published_at"]
    assert heard(views=0, likes=0, comments=0, shares=0, followers=0).missing == []


def test_a_counter_that_is_0_is_known() -> None:
    draft = heard(views=0, likes=0)
    assert (draft.reach, draft.engagement, draft.impact, draft.risk) == (0, 0, 0, "LOW")
    assert heard(followers=0).impact == 0


def test_a_part_that_is_missing_neither_lowers_nor_raises_the_rest() -> None:
    """As if the author were like the post: 0 followers would make it smaller, a million larger."""
    known: dict[str, object] = {"views": 50_000, "likes": 900, "comments": 80, "shares": 40}
    assert impact(**known, followers=0) < impact(**known) < impact(**known, followers=5_000_000)


def test_grave_words_are_a_risk_also_where_nobody_tells_who_heard_them() -> None:
    danger = heard("Xe bị mất phanh, cháy, cực kỳ nguy hiểm, quá tệ, thất vọng")
    assert (danger.impact, danger.risk) == (None, "HIGH")
    assert heard("Tuyệt vời, rất hài lòng").risk == "LOW"
    assert heard("Xe hơi ồn").risk in ("LOW", "MEDIUM")


def test_age_counts_against_the_end_of_the_projects_days() -> None:
    """A crisis of last month is CRITICAL today as it was then."""
    then = NOW - timedelta(days=30)
    post = {"id": "1", "platform": "news", "text": BAD, "published_at": then.isoformat()}
    post["metrics"] = {"views": 5_000_000, "shares": 9_000}
    judged = [modules().apply(post, AnalysisContext(NOW, until=until)).risk for until in (None, then, NOW)]
    assert judged == ["HIGH", "CRITICAL", "HIGH"]


def test_days_that_lie_ahead_make_nothing_older_than_it_is() -> None:
    post = {"id": "1", "platform": "news", "text": BAD, "published_at": NOW.isoformat(), "metrics": {"views": 1_000}}
    ahead = AnalysisContext(NOW, until=NOW + timedelta(days=300))
    assert modules().apply(post, ahead).impact == modules().apply(post, AnalysisContext(NOW)).impact
