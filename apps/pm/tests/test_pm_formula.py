"""Formulas over counters: what they are worth, what they refuse, and that nothing missing is ever taken for zero."""

from __future__ import annotations

import pytest

from headrace_pm.operators.kpi.formula import CHARS_MAX, OPERATIONS_MAX, CounterTotals, Formula, FormulaError, KpiValue

TOTALS = {
    1: CounterTotals(10.0, 4, 1.0, 5.0),
    2: CounterTotals(0.0, 2, 0.0, 0.0),
    3: CounterTotals(0.0, 0, float("inf"), float("-inf"), nulls=3),
    4: CounterTotals(1e308, 1, 1e308, 1e308),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c1", 10.0),
        ("100 * c1 / (c1 + {2})", 100.0),
        ("2 + 3 * c1 - 4 / 2", 30.0),
        ("-avg(c1) * -2", 5.0),
        ("MAX({ 1 }) - min(c1)", 4.0),
        ("c1 - 1 - 1", 8.0),
        ("c1 / 2 / 5", 1.0),
        ("1.5e1 * c1", 150.0),
        ("sum(c1)+c2", 10.0),
    ],
)
def test_a_formula_is_worth_what_it_says(text: str, value: float) -> None:
    assert Formula.of(text).value(TOTALS) == KpiValue(value)


@pytest.mark.parametrize("text", ["c1 / c2", "c1 / (c2 * 5)", "c4 * c4", "c4 * c4 - c4 * c4"])
def test_what_is_divided_by_zero_or_is_no_number_has_no_value(text: str) -> None:
    assert Formula.of(text).value(TOTALS) == KpiValue(None, undefined=True)


def test_what_is_missing_is_named_and_makes_the_whole_missing() -> None:
    assert Formula.of("c1 + c3 * 0 + c9").value(TOTALS) == KpiValue(None, (3, 9))
    assert Formula.of("avg(c3)").value(TOTALS) == KpiValue(None, (3,))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends too early"),
        ("1 +", "ends too early"),
        ("100", "without a counter"),
        ("c1 c1", "'c1' is not expected there"),
        ("c1 ** 2", "'*' is no part"),
        ("c1 // 2", "'/' is no part"),
        ("__import__('os')", "'__import__' is no part"),
        ("c1.real", "'.' is no part"),
        ("c1 if c1 else c2", "'if' is not expected"),
        ("c1x", "'c1x' is no part"),
        ("sum(c1 + c2)", "')' is missing"),
        ("sum c1", "'(' is missing"),
        ("(c1", "')' is missing"),
        ("c99999999999", "is no part"),
        ("{9999999999}", "ids have 31 bits"),
        ("(" * 60 + "c1" + ")" * 60, "nested deeper"),
        ("-" * 60 + "c1", "nested deeper"),
        ("1+" * (OPERATIONS_MAX + 1) + "c1", "operations"),
        ("+".join(f"c{n}" for n in range(60)), "60 counters"),
        ("1" * (CHARS_MAX + 1), "characters"),
    ],
)
def test_what_is_no_formula_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(FormulaError, match=words.replace("(", r"\(").replace(")", r"\)").replace("*", r"\*")):
        Formula.of(text)
