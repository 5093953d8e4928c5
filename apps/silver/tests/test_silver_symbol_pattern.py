"""The pattern of symbols: the meaning it has in `re`, and no symbol and no pattern that stops a worker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from silver_records import UNHURRIED

from headrace.errors import CallerError
from headrace_silver.records.rules import RuleSettings
from headrace_silver.records.symbol_patterns import POSITIONS_MAX, SYMBOLS_REMEMBERED_MAX, SymbolPattern

CATASTROPHES = [
    "^(A+)+$",
    "^(A|A)*$",
    "^(A*)*B?$",
    "^(A?){200}A{200}$",
    "^(A|AA)+$",
    "^(.*A){40}$",
    "^(([A-Z])+[A-Z])+$",
]
CHILD = """
import sys
from silver_records import BAR, changed, judged
from headrace_silver.records.rules import RuleSettings
print(judged("ta.bar", changed(BAR, symbol="A" * 5000 + "!"), RuleSettings(sys.argv[1])).rule_id)
"""


@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_no_pattern_makes_a_symbol_take_for_ever(pattern: str) -> None:
    # In a process of its own: where the guard is gone, nothing but its end can stop the match.
    line = [sys.executable, "-c", CHILD, pattern]
    done = subprocess.run(line, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "ta_symbol"


_ATOMS = st.sampled_from(["A", "B", "[AB]", "[^A]", ".", r"\d", "[A-B1]", r"\.", "(?:)", "[]A]", r"\x41"])
_TIMES = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "+?", "{0}", "{1,2}?"])
_PATTERNS = st.recursive(
    _ATOMS,
    lambda part: st.one_of(
        st.tuples(part, part).map("".join),
        st.tuples(part, part).map("|".join),
        st.tuples(part, _TIMES).map(lambda both: f"({both[0]}){both[1]}"),
        st.tuples(_ATOMS, _TIMES).map("".join),
    ),
    max_leaves=6,
)


@UNHURRIED
@given(_PATTERNS, st.lists(st.text("AB1.\n", max_size=6), min_size=1, max_size=8))
def test_a_pattern_means_what_it_means_to_re(pattern: str, symbols: list[str]) -> None:
    for written in (pattern, f"^(?:{pattern})$", f"(?s){pattern}", f"(?i){pattern.lower()}"):
        ours = SymbolPattern(written)
        for symbol in symbols:
            assert ours.matches(symbol) == (re.fullmatch(written, symbol) is not None), (written, symbol)


@pytest.mark.parametrize("pattern", ["^[A-Z]{3,7}$", "^A|^B$|C", r"\A(^FU\w{6}|E1VFVN30)$\Z", "(?P<name>A)B", "", "^$"])
def test_usual_patterns_mean_what_they_mean_to_re(pattern: str) -> None:
    ours = SymbolPattern(pattern)
    for symbol in ("", "A", "B", "C", "AB", "FPT", "FPT\n", "FUEVFVND", "E1VFVN30", "ĐPT", "ABCDEFGH"):
        assert ours.matches(symbol) == (re.fullmatch(pattern, symbol) is not None)


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=A)A",
        "(?!A)B",
        "(?<!A)B",
        r"(A)\1",
        r"A\b",
        "A++",
        "(?>A)",
        "A^B",
        "A$B",
        "(^A)+",
        "A(?i:b)",
        "A{B",
        r"\101",
        "A\nB",
        "A{501}",
        "(A{30}){30}",
        "A" * (POSITIONS_MAX + 1),
    ],
)
def test_what_takes_more_than_one_walk_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(CallerError, match=r"SILVER_SYMBOL_PATTERN = .* in bounded time") as refused:
        RuleSettings.read({"SILVER_SYMBOL_PATTERN": pattern})
    assert "looking around" in refused.value.hint


def test_to_repeat_nothing_very_often_is_nothing() -> None:
    assert SymbolPattern("(){4000000000}A").matches("A")


def test_what_is_remembered_is_bounded() -> None:
    ours = SymbolPattern("[0-9]+")
    assert all(ours.matches(str(number)) for number in range(SYMBOLS_REMEMBERED_MAX + 10))
    assert ours.matches("7" * 100_000)
    assert len(ours._known) <= SYMBOLS_REMEMBERED_MAX
    assert max(map(len, ours._known)) <= 32
