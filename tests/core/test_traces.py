"""A `traceparent` of anybody is passed on as it is, or not at all."""

from __future__ import annotations

import pytest

from headrace.core.traces import make_traceparent, read_traceparent

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("flags", ["00", "01", "ff"])
def test_a_trace_is_passed_on_as_it_is(flags: str) -> None:
    assert read_traceparent(f"00-{TRACE}-{SPAN}-{flags}") == f"00-{TRACE}-{SPAN}-{flags}"
    assert read_traceparent(f"  00-{TRACE}-{SPAN}-{flags} ") == f"00-{TRACE}-{SPAN}-{flags}"


def test_of_a_later_version_the_known_part_is_passed_on() -> None:
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01") == f"00-{TRACE}-{SPAN}-01"
    assert read_traceparent(f"cc-{TRACE}-{SPAN}-01-what-follows") == f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01\nevent=forged",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 300,
    ],
)
def test_what_is_none_is_not_passed_on(text: str) -> None:
    assert read_traceparent(text) == ""


def test_one_that_begins_here_can_be_read() -> None:
    assert read_traceparent(make_traceparent(TRACE, SPAN)) == f"00-{TRACE}-{SPAN}-01"
