"""A project's order becomes crawl tasks, or words that say what is wrong with it."""

from __future__ import annotations

import contextlib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.blobs import check_path
from headrace.errors import CallerError
from headrace_smap.collector.blob_names import blob_path, platform_name
from headrace_smap.collector.task_plan import CrawlTarget, OrderRefused, read_order, split
from headrace_smap.collector.tasks import CrawlTask
from headrace_smap.collector.wishes import Choice, read_choices, read_wishes

PLATFORMS = ("tiktok", "youtube")


def tasks_of(**payload: Any) -> list[CrawlTask]:
    return split(read_order("proj_abc", payload), PLATFORMS)


def test_a_project_is_split_by_platform_keyword_and_day() -> None:
    tasks = tasks_of(
        keywords=["VinFast", "VF3"],
        targets=[{"platform": "TikTok", "url": "https://tiktok.com/@vf"}, {"platform": "facebook"}],
        date_range=["2025-01-31", "2025-02-02"],
    )
    searched = {(task.platform, task.keyword, task.day) for task in tasks if not task.url}
    days = ("2025-01-31", "2025-02-01", "2025-02-02")
    assert searched == {
        (place, word, day) for place in ("tiktok", "facebook") for word in ("VinFast", "VF3") for day in days
    }
    (address,) = [task for task in tasks if task.url]
    assert (address.url, address.start, address.end) == ("https://tiktok.com/@vf", "2025-01-31", "2025-02-02")
    assert address.keywords == ("VinFast", "VF3")
    assert len({task.name for task in tasks}) == len(tasks) == 13


def test_every_address_is_a_task_of_its_own() -> None:
    tasks = tasks_of(keywords=[], targets=[{"platform": "tiktok", "url": f"https://a.example/{n}"} for n in (1, 2, 2)])
    assert [task.url for task in tasks] == ["https://a.example/1", "https://a.example/2"]


def test_a_search_knows_whether_the_project_names_addresses_there_too() -> None:
    targets = [{"url": "https://a.example/feed.xml"}, {"platform": "news"}]
    searches = [task for task in tasks_of(keywords=["x"], targets=targets) if not task.url]
    assert [(task.platform, task.beside) for task in searches] == [("feed", True), ("news", False)]


def test_a_project_that_names_no_platform_is_searched_everywhere() -> None:
    assert [(task.platform, task.day) for task in tasks_of(keywords=["x"])] == [("tiktok", ""), ("youtube", "")]


def test_a_project_without_keywords_and_addresses_has_nothing_to_crawl() -> None:
    assert tasks_of() == tasks_of(keywords=None, targets=[], date_range=[]) == []
    assert tasks_of(keywords=["  "], targets=[{"platform": "tiktok"}]) == []


def test_keywords_that_differ_in_case_and_spaces_are_one() -> None:
    assert read_order("p", {"keywords": ["VinFast", " vinfast ", "Vin  Fast"]}).keywords == ("VinFast", "Vin Fast")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("https://www.youtube.com/watch?v=1", CrawlTarget("youtube", "https://www.youtube.com/watch?v=1")),
        ({"url": "https://vt.tiktok.com/1"}, CrawlTarget("tiktok", "https://vt.tiktok.com/1")),
        ({"url": "https://nottiktok.com/1", "platform": None}, CrawlTarget("feed", "https://nottiktok.com/1")),
        ("FACEBOOK", CrawlTarget("facebook")),
        ({"platform": "tiktok", "url": "...", "since": 3}, CrawlTarget("tiktok", "...")),
    ],
)
def test_targets_are_read_with_patience(target: Any, expected: CrawlTarget) -> None:
    assert read_order("p", {"targets": [target]}).targets == (expected,)


def test_days_are_read_in_several_forms() -> None:
    days = (date(2025, 1, 1), date(2025, 1, 31))
    for given_days in (
        ["2025-01-01", "2025-01-31"],
        ["2024-12-31T17:00:00Z", "2025-01-31T23:59:59+07:00"],
        {"from": "2025-01-01", "to": "2025-01-31"},
    ):
        assert read_order("p", {"date_range": given_days}).days == days


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"keywords": "x" * 201}, "KEYWORD_CHARS_MAX"),
        ({"keywords": [1]}, "keywords must be a list"),
        ({"keywords": [f"k{n}" for n in range(201)]}, "KEYWORDS_MAX"),
        ({"keywords": ["nul\x00"]}, "characters that no text has"),
        ({"targets": [3]}, "targets"),
        ({"targets": [{"platform": "../etc"}]}, "not the name of a platform"),
        ({"targets": [{"url": "https://a.example/\x00"}]}, "characters that no address has"),
        ({"targets": [{"platform": " ", "url": " "}]}, "must name a platform"),
        ({"targets": [{"platform": "tiktok", "url": "u" * 2_001}]}, "URL_CHARS_MAX"),
        ({"targets": ["tiktok"] * 2_001}, "TARGETS_MAX"),
        ({"date_range": ["2025-02-01", "2025-01-01"]}, "ends on 2025-01-01 before it begins"),
        ({"date_range": ["0001-01-01", "9999-12-31"]}, "DAYS_MAX = 3,660: make several projects"),
        ({"date_range": ["2025-01-01"]}, "two days"),
        ({"date_range": ["yesterday", "today"]}, "is not a day"),
        ({"date_range": [1, 2]}, "days as texts"),
        ({"posts_max": 0}, "posts_max"),
        ({"posts_max": "7"}, "posts_max"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_in_words(payload: dict[str, Any], words: str) -> None:
    with pytest.raises(OrderRefused, match=words):
        tasks_of(**payload)


def test_more_tasks_than_the_limit_are_refused_before_they_are_made() -> None:
    with pytest.raises(
        OrderRefused, match=r"2 platforms × 50 keywords × 365 days .* 36,500 crawl tasks, over TASKS_MAX"
    ):
        tasks_of(keywords=[f"k{n}" for n in range(50)], date_range=["2025-01-01", "2025-12-31"])


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3)))
def test_no_order_does_anything_but_split_or_be_refused(value: Any) -> None:
    with contextlib.suppress(OrderRefused):
        assert isinstance(tasks_of(keywords=value, targets=value, date_range=value), list)


@given(st.text(max_size=300), st.text(min_size=1, max_size=300))
def test_no_name_leaves_its_place_in_a_path(post: str, project: str) -> None:
    path = blob_path("tiktok", project, post)
    assert check_path(path) == path
    assert path.count("/") == 3
    assert max(len(part.encode()) for part in path.split("/")) <= 110


def test_names_that_look_alike_do_not_meet_in_a_path() -> None:
    names = ["a/b", "a_b", "..", ".", "", "a b", "id=", "A", "a", "a.json", "x" * 101, "x" * 100]
    assert len({blob_path("tiktok", "p", name) for name in names}) == len(names)
    assert blob_path("tiktok", "proj_abc", "vid_888") == "raw/tiktok/proj_abc/vid_888.json"


def test_a_platform_is_compared_without_case() -> None:
    assert platform_name(" TikTok ") == "tiktok"


def test_crawlers_are_chosen_per_platform() -> None:
    text = "tiktok=simulated:posts=3,News=feed:https://h/s?q={keyword}&a=b,c&day={day}, *=mine"
    assert read_choices(text) == {
        "tiktok": Choice("simulated", "posts=3"),
        "news": Choice("feed", "https://h/s?q={keyword}&a=b,c&day={day}"),
        "*": Choice("mine"),
    }


@pytest.mark.parametrize(
    "environment",
    [
        {"SMAP_CRAWLERS": "tiktok"},
        {"SMAP_CRAWLERS": "tiktok="},
        {"SMAP_PLATFORMS": "a/b"},
        {"SMAP_CRAWL_PRIVATE": "perhaps"},
        {"SMAP_CRAWL_LANES": "0"},
        {"SMAP_CRAWL_INTERVAL_S": "-1"},
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(environment: dict[str, str]) -> None:
    with pytest.raises(CallerError, match=next(iter(environment))):
        read_wishes(environment)


def test_settings_have_defaults_that_work() -> None:
    wishes = read_wishes({})
    assert (wishes.searched, wishes.simulates) == ((), False)
    assert not wishes.private
    assert [wishes.choice(name) for name in ("rss", "tiktok")] == [Choice("feed"), None]


@pytest.mark.parametrize(
    ("environment", "searched", "unserved"),
    [
        ({}, (), ("tiktok", "youtube")),
        ({"SMAP_SIMULATED": "1"}, ("tiktok", "facebook", "youtube"), ()),
        ({"SMAP_CRAWLERS": "*=simulated:posts=3"}, ("tiktok", "facebook", "youtube"), ()),
        ({"SMAP_CRAWLERS": "tiktok=mine"}, ("tiktok",), ("youtube",)),
        ({"SMAP_CRAWLERS": "youtube=feed:https://h/s?q={keyword}"}, ("youtube",), ("tiktok",)),
        ({"SMAP_CRAWLERS": "youtube=feed"}, (), ("tiktok",)),
        ({"SMAP_CRAWLERS": "tiktok=mine,*=simulated"}, ("tiktok",), ()),
        ({"SMAP_PLATFORMS": "news", "SMAP_SIMULATED": "1"}, ("news",), ()),
    ],
)
def test_nothing_is_simulated_unless_somebody_asks_for_it(
    environment: dict[str, str], searched: tuple[str, ...], unserved: tuple[str, ...]
) -> None:
    wishes = read_wishes(environment)
    assert wishes.searched == searched
    assert wishes.unserved(["tiktok", "youtube", "feed", "tiktok"]) == unserved


def test_an_order_that_names_no_platform_needs_one_to_search() -> None:
    with pytest.raises(OrderRefused, match="names no platform"):
        split(read_order("p", {"keywords": ["x"]}), ())
