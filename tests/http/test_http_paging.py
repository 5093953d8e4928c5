"""Pages of a list, and the cursors between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.http import Problem, decode_cursor, encode_cursor, paged


@given(st.text(max_size=50), st.integers(-(2**40), 2**40))
def test_a_cursor_comes_back_as_it_was(text: str, number: int) -> None:
    try:
        cursor = encode_cursor(text, number)
    except UnicodeEncodeError:
        return
    assert cursor.isascii()
    assert decode_cursor(cursor, str, int) == (text, number)


@given(
    st.one_of(st.text(max_size=40), st.just("x" * 2_000), st.just(encode_cursor(1, "a")), st.just(encode_cursor("a")))
)
def test_what_is_no_cursor_of_the_list_is_refused(text: str) -> None:
    with pytest.raises(Problem) as refused:
        decode_cursor(text, str, int)
    assert refused.value.status == 400


@pytest.mark.parametrize(("count", "shown", "following"), [(0, 0, False), (3, 3, False), (4, 3, True)])
def test_the_row_too_many_tells_of_a_next_page(count: int, shown: int, following: bool) -> None:
    rows, cursor = paged(list(range(count)), 3, encode_cursor)
    assert (len(rows), cursor is not None) == (shown, following)
    if cursor:
        assert decode_cursor(cursor, int) == (2,)
