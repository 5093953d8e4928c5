"""One notation for the values of a statement, and everything that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.placeholders import WrongPlaceholders, pyformat


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("VALUES (?, ?)", "VALUES (%s, %s)"),
        ("VALUES (:a, :bc_1, :a)", "VALUES (%(a)s, %(bc_1)s, %(a)s)"),
        ("SELECT ?::int, :a::text", "SELECT %s::int, %(a)s::text"),
        ("SELECT 'what? 100% :a' || ?", "SELECT 'what? 100%% :a' || %s"),
        ("SELECT 'it''s ?', ?", "SELECT 'it''s ?', %s"),
        (r"SELECT E'it\'s ?', ?", r"SELECT E'it\'s ?', %s"),
        (r"SELECT 'a\', ?", r"SELECT 'a\', %s"),
        ("SELECT name'?' , ?", "SELECT name'?' , %s"),
        ('SELECT "odd ? :a""%" FROM t WHERE x = ?', 'SELECT "odd ? :a""%%" FROM t WHERE x = %s'),
        ("SELECT ? -- why? 5% :a\n, ?", "SELECT %s -- why? 5%% :a\n, %s"),
        ("SELECT /* ? /* :a */ 5% ' */ ?", "SELECT /* ? /* :a */ 5%% ' */ %s"),
        ("SELECT ? /* never ends ?", "SELECT %s /* never ends ?"),
        ("SELECT $$ ? :a 5% $$, ?", "SELECT $$ ? :a 5%% $$, %s"),
        ("SELECT $x$ ? $$ ? $x$, ?", "SELECT $x$ ? $$ ? $x$, %s"),
        ("SELECT a$b$ FROM t WHERE c = ? AND d$b$ = 1", "SELECT a$b$ FROM t WHERE c = %s AND d$b$ = 1"),
        ("SELECT data ?? :key", "SELECT data ? %(key)s"),
        ("SELECT data ??| ? AND data ??& ?", "SELECT data ?| %s AND data ?& %s"),
        ("SELECT path @?? ?", "SELECT path @? %s"),
        ("SELECT a % ?, b %s", "SELECT a %% %s, b %%s"),
        ("CALL f(x := ?)", "CALL f(x := %s)"),
        ("SELECT list[1: n], list[2:3], ?", "SELECT list[1: n], list[2:3], %s"),
    ],
)
def test_values_are_found_and_nothing_else_is(written: str, sent: str) -> None:
    assert pyformat(written).text == sent


@pytest.mark.parametrize(
    ("statement", "values", "why"),
    [
        ("VALUES (?, ?)", (1,), r"2 placeholders \(\?\) and 1 values"),
        ("VALUES (%s)", (1,), r"0 placeholders \(\?\) and 1 values"),
        ("SELECT data ? 'key'", (), r"the operator \? is written \?\?"),
        ("SELECT data ? :key", {"key": 1}, "not both"),
        ("SELECT data ? 'key'", {}, r"the operator \? is written \?\?"),
        ("VALUES (:a, :b)", {"a": 1}, "no value for :b"),
        ("VALUES (:a)", (1,), ":a takes its value by name"),
    ],
)
def test_values_that_do_not_belong_to_a_statement_are_refused(statement: str, values: Any, why: str) -> None:
    with pytest.raises(WrongPlaceholders, match=why):
        pyformat(statement).check(values)


def test_a_numbered_placeholder_is_refused() -> None:
    with pytest.raises(WrongPlaceholders, match="numbered"):
        pyformat("VALUES (?1)")


def test_more_named_values_than_needed_are_no_mistake() -> None:
    pyformat("VALUES (:a)").check({"a": 1, "b": 2})
    pyformat("VALUES (1)").check({})
