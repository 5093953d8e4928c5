"""Messages become posts, and blobs become rows; whatever is wrong with one has a name and stays its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from smap_posts import BAD_BLOBS, GOOD, PROJECT, deadly, delivery, message, nothing, post

from headrace_smap.analytics.batch import read_batch
from headrace_smap.analytics.blob_values import BadBlob, read_blob
from headrace_smap.analytics.work import COLUMNS, Work, analyse

NOW = datetime(2025, 11, 29, 10, tzinfo=UTC)


def analysed(raw: bytes, **more: Any) -> dict[str, Any]:
    ((found, fault),) = analyse(nothing(), [Work(PROJECT, "raw/a.json", raw, **more)], NOW)
    assert fault is None
    assert found is not None
    return dict(zip(COLUMNS, json.loads(found.row), strict=True))


def rule_of(raw: bytes) -> str:
    ((found, fault),) = analyse(nothing(), [Work(PROJECT, "raw/a.json", raw)], NOW)
    assert found is None
    assert fault is not None
    return fault.rule


def test_a_post_told_twice_in_a_batch_is_there_once_in_the_order_of_delivery() -> None:
    paths = ["raw/b.json", "raw/a.json", "raw/b.json", "raw/c.json"]
    batch = read_batch([delivery(message(path), number) for number, path in enumerate(paths)])
    assert [each.path for each in batch.posts] == ["raw/b.json", "raw/a.json", "raw/c.json"]
    assert batch.repeats == 1


def test_the_same_path_in_two_projects_is_two_posts() -> None:
    batch = read_batch([delivery(message("raw/a.json")), delivery(message("raw/a.json", "other"))])
    assert [each.name for each in batch.posts] == [(PROJECT, "raw/a.json"), ("other", "raw/a.json")]


def test_a_repeat_that_was_delivered_before_makes_the_post_a_suspect() -> None:
    batch = read_batch([delivery(message("raw/a.json")), delivery(message("raw/a.json"), 2, deliveries=3)])
    assert [(each.suspect, each.deliveries) for each in batch.posts] == [(True, 3)]


def test_a_message_without_a_project_is_a_stray_and_belongs_to_no_count() -> None:
    batch = read_batch([delivery(b"not json"), delivery(b'{"payload": {"minio_path": "raw/a.json"}}')])
    assert batch.posts == []
    assert [each.fault.rule for each in batch.strays if each.fault] == ["event_json", "event_project"]


def test_a_message_without_a_path_is_counted_under_a_name_that_a_repeat_has_too() -> None:
    body = json.dumps({"payload": {"project_id": PROJECT}}).encode()
    first, second = (read_batch([delivery(body, number)]).posts[0] for number in (1, 2))
    other = read_batch([delivery(body + b" ")]).posts[0]
    assert first.fault is not None
    assert first.fault.rule == "event_path"
    assert first.item == second.item != other.item


@pytest.mark.parametrize("path", ["raw/\x00.json", "x" * 5_000, "ế" * 1_000])
def test_a_path_that_no_database_could_keep_has_a_name_that_one_can(path: str) -> None:
    (found,) = read_batch([delivery(message(path))]).posts
    (again,) = read_batch([delivery(message(path), 2)]).posts
    assert (found.path, found.item) == (path, again.item)
    assert "\x00" not in found.item
    assert 0 < len(found.item.encode()) <= 1_024


def test_extra_fields_and_strange_times_do_not_fail_a_message() -> None:
    body = message("raw/a.json", keyword="VF\x003", crawled_at=17, other={"x": [1]})
    (found,) = read_batch([delivery(body)]).posts
    assert (found.fault, found.keyword, found.crawled_at) == (None, "VF\ufffd3", "17")


@pytest.mark.parametrize(("rule", "raw"), BAD_BLOBS.items())
def test_a_bad_blob_is_told_by_its_own_rule(rule: str, raw: bytes) -> None:
    assert rule_of(raw) == rule


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "blob_truncated"),
        (b"  ", "blob_truncated"),
        (b"[" * 200_000, "blob_json"),
        (b'{"id": NaN}', "blob_json"),
        (json.dumps(GOOD).encode("utf-16-le"), "blob_encoding"),
        (json.dumps(GOOD).encode("utf-32"), "blob_encoding"),
        (json.dumps({**GOOD, "text": "đẹp"}, ensure_ascii=False).encode("cp1258", "replace"), "blob_encoding"),
        (b'{"id": ' + b"9" * 10_000 + b"}", "blob_json"),
        (b"null", "post_not_an_object"),
    ],
)
def test_unusual_bytes_are_told_apart(raw: bytes, rule: str) -> None:
    assert rule_of(raw) == rule


def test_a_byte_order_mark_and_half_an_emoji_are_let_through() -> None:
    assert analysed(b"\xef\xbb\xbf" + post())["post_id"] == "vid_1"
    assert read_blob(b'{"text": "\\ud83d cut"}')["text"].endswith("cut")
    assert analysed(b'{"id": "1", "platform": "x", "text": "\\ud83d cut \\u0000"}')["text"] == "\ufffd cut \ufffd"


def test_a_bad_blob_says_where_it_is_bad() -> None:
    with pytest.raises(BadBlob, match="character 12 of 31"):
        read_blob(b'{"id": "1", platform: "tiktok"}')


def test_a_row_has_what_was_told_and_what_was_found() -> None:
    row = analysed(post(published_at="2025-11-28T23:30:00-02:00"), keyword="VF3", crawled_at="soon")
    assert (row["project_id"], row["minio_path"], row["post_id"]) == (PROJECT, "raw/a.json", "vid_1")
    assert (row["platform"], row["keyword"], row["crawled_at"], row["likes"]) == ("tiktok", "VF3", "soon", 12)
    assert (row["published_at"], row["day"]) == ("2025-11-29T01:30:00.000000+00:00", "2025-11-29")
    assert row["model_version"] == nothing().model_version
    assert analysed(post())["day"] == "2025-11-29"


def test_what_a_post_does_to_a_module_is_its_own_fault() -> None:
    works = [Work(PROJECT, text, post(text=text)) for text in ("fail", "fine", "leave")]
    outcomes = analyse(deadly(), works, NOW)
    assert [fault and (fault.rule, fault.exception) for _, fault in outcomes] == [
        ("module_failed", "ZeroDivisionError"),
        None,
        ("module_failed", "SystemExit"),
    ]
    assert outcomes[0][1] is not None
    assert outcomes[0][1].reason == "module:deadly by nothing"
