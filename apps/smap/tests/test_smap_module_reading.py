"""Raw posts are read generously, and what is read can be stored anywhere."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_smap.analytics.modules import TEXT_CHARS_MAX, InvalidPost, RawPost
from headrace_smap.analytics.modules.amounts import COUNT_MAX, count, moment
from headrace_smap.days import VIETNAM

POST = {"id": "vid_888", "platform": "TikTok", "text": "xin chào"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=4,
)
FIELDS = st.sampled_from(("id", "platform", "text", "author", "metrics", "published_at", "url", "other"))


def test_the_three_required_fields_make_a_post() -> None:
    post = RawPost.read(POST)
    assert (post.id, post.platform, post.text) == ("vid_888", "tiktok", "xin chào")
    assert (post.author_name, post.followers, post.likes, post.views, post.published_at, post.url) == (None,) * 6


def test_everything_that_is_told_is_read_and_the_rest_is_kept() -> None:
    post = RawPost.read(
        {
            **POST,
            "id": 888,
            "author": {"id": 7, "name": " Lan ", "followers": "1,2 N"},
            "metrics": {"likes": "1.2K", "comments": "12", "shares": None, "views": 10**6},
            "published_at": "2025-11-29T10:00:00+07:00",
            "url": "https://example.com/1",
            "music": {"title": "nhạc"},
        }
    )
    assert (post.id, post.author_id, post.author_name, post.followers) == ("888", "7", "Lan", 1200)
    assert (post.likes, post.comments, post.shares, post.views) == (1200, 12, None, 10**6)
    assert post.published_at == datetime(2025, 11, 29, 3, tzinfo=UTC)
    assert post.others == {"music": {"title": "nhạc"}}


def test_an_author_may_be_a_plain_name() -> None:
    assert RawPost.read({**POST, "author": "Lan"}).author_name == "Lan"


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ([], "post_not_an_object"),
        ("text", "post_not_an_object"),
        (None, "post_not_an_object"),
        ({**POST, "id": None}, "post_without_id"),
        ({**POST, "id": "  "}, "post_without_id"),
        ({**POST, "id": True}, "post_without_id"),
        ({"id": "1", "text": "a"}, "post_without_platform"),
        ({**POST, "platform": []}, "post_without_platform"),
        ({"id": "1", "platform": "x"}, "post_without_text"),
        ({**POST, "text": None}, "post_without_text"),
        ({**POST, "text": 5}, "post_without_text"),
    ],
)
def test_what_is_no_post_is_refused_with_its_rule(value: object, rule: str) -> None:
    with pytest.raises(InvalidPost) as refused:
        RawPost.read(value)
    assert refused.value.rule == rule
    assert copy.copy(refused.value).rule == rule


def test_an_empty_text_is_a_post() -> None:
    assert RawPost.read({**POST, "text": ""}).text == ""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, 0),
        (1200, 1200),
        (12.7, 12),
        (-3, 0),
        ("-5", 0),
        ("1.2K", 1200),
        ("1,2k", 1200),
        ("1.2 M", 1_200_000),
        ("3 triệu", 3_000_000),
        ("1,5 tr", 1_500_000),
        ("12 N", 12_000),
        ("2 nghìn", 2_000),
        ("1 tỷ", 10**9),
        ("1,234", 1234),
        ("1.234", 1234),
        ("1.234.567", 1_234_567),
        ("1,234,567", 1_234_567),
        ("1.234K", 1234),
        ("10K+", 10_000),
        ("999999999999999999999", COUNT_MAX),
        (10**400, COUNT_MAX),
        (None, None),
        (True, None),
        (float("nan"), None),
        (float("inf"), None),
        ("", None),
        ("nhiều", None),
        ("12 con", None),
        ("1" * 100, None),
        ([], None),
    ],
)
def test_counters_are_understood_as_people_write_them(written: object, meant: int | None) -> None:
    assert count(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2025-11-29T10:00:00Z", datetime(2025, 11, 29, 10, tzinfo=UTC)),
        ("2025-11-29 10:00:00", datetime(2025, 11, 29, 3, tzinfo=UTC)),
        ("2025-11-29", datetime(2025, 11, 28, 17, tzinfo=UTC)),
        ("29/11/2025 10:30", datetime(2025, 11, 29, 3, 30, tzinfo=UTC)),
        ("29/11/2025", datetime(2025, 11, 28, 17, tzinfo=UTC)),
        ("Sat, 29 Nov 2025 10:00:00 +0700", datetime(2025, 11, 29, 3, tzinfo=UTC)),
        ("Sat, 29 Nov 2025 10:00:00 -0000", datetime(2025, 11, 29, 10, tzinfo=UTC)),
        (1764410400, datetime(2025, 11, 29, 10, tzinfo=UTC)),
        (1764410400000, datetime(2025, 11, 29, 10, tzinfo=UTC)),
        ("1764410400", datetime(2025, 11, 29, 10, tzinfo=UTC)),
        ("hôm qua", None),
        ("...", None),
        ("31/02/2025", None),
        (10**30, None),
        (float("nan"), None),
        (None, None),
        (True, None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_moments_are_understood_or_not_known(written: object, meant: datetime | None) -> None:
    assert moment(written, VIETNAM) == meant


def test_a_long_text_is_read_up_to_its_limit() -> None:
    assert len(RawPost.read({**POST, "text": "a" * (TEXT_CHARS_MAX + 1)}).text) == TEXT_CHARS_MAX


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(FIELDS, ANYTHING))
def test_any_json_is_a_post_or_refused_and_a_post_can_be_stored(value: dict[str, Any]) -> None:
    try:
        post = RawPost.read({**POST, **value})
    except InvalidPost:
        return
    for text in (post.id, post.platform, post.text, post.author_id or "", post.author_name or "", post.url or ""):
        assert "\x00" not in text
        text.encode("utf-8")
    for number in (post.followers, post.likes, post.comments, post.shares, post.views):
        assert number is None or 0 <= number <= COUNT_MAX
    assert post.published_at is None or post.published_at.tzinfo is UTC


def test_half_a_surrogate_pair_becomes_a_mark_that_can_be_stored() -> None:
    post = RawPost.read(json.loads('{"id": "a\\u0000b", "platform": "x", "text": "đẹp \\ud83d quá"}'))
    assert (post.id, post.text) == ("a\ufffdb", "đẹp \ufffd quá")
