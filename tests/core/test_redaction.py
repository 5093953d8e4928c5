"""What may be shown and kept: no secrets, and no more than a bound."""

from __future__ import annotations

import pytest

from headrace.core.redaction import clipped, redacted, redacted_text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se@c/r:et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?user=me&password=secret&x=1", "postgresql://host/db?user=me&password=***&x=1"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("jobs.db", "jobs.db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach amqp://me:se@c/r:et@host:5672/x now", "cannot reach amqp://me:***@host:5672/x now"),
        ("host=h password=hunter2 user=u", "host=h password=*** user=u"),
        ("{'api_key': 'abc def', 'page': 3}", "{'api_key': ***, 'page': 3}"),
        ('headers["Authorization"] = "Bearer abcdefghi"', 'headers["Authorization"] = ***'),
        ("Authorization: Bearer abcdefghij.klm", "Authorization: Bearer ***"),
        ("https://host/?token=abc&page=2", "https://host/?token=***&page=2"),
        ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln back", "got *** back"),
        ("the tokenizer read 3 words at https://host/a@b", "the tokenizer read 3 words at https://host/a@b"),
    ],
)
def test_what_looks_like_a_secret_is_not_shown(text: str, shown: str) -> None:
    assert redacted_text(text) == shown


def test_a_text_that_fits_is_kept_whole() -> None:
    assert clipped("á" * 50, 100) == "á" * 50


@pytest.mark.parametrize("bytes_max", [60, 61, 62, 63, 1_000])
def test_of_a_long_text_the_beginning_and_the_end_are_kept(bytes_max: int) -> None:
    kept = clipped("first" + "á" * 5_000 + "last", bytes_max)
    assert len(kept.encode()) <= bytes_max
    assert kept.startswith("first")
    assert kept.endswith("last")
    assert "bytes and more left out" in kept


def test_what_no_store_can_keep_is_replaced() -> None:
    assert clipped("a\udc80b", 100) == "a?b"
