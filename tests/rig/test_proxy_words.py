"""Faults as values, and the words for them."""

from __future__ import annotations

import shlex

import pytest

from headrace.core.errors import CallerError
from headrace.testing.rig.proxy.faults import (
    FORMS,
    Bandwidth,
    BlackHole,
    CutAfter,
    CutBefore,
    CutReply,
    Fault,
    Heal,
    Latency,
    Refuse,
    Reset,
    parse,
)

MEANINGS: dict[str, Fault] = {
    "latency 200ms": Latency(0.2),
    "latency 1.5s 50ms": Latency(1.5, 0.05),
    "latency 1ms 2s replies": Latency(0.001, 2.0, "replies"),
    "latency 20ms requests": Latency(0.02, way="requests"),
    "bandwidth 10k": Bandwidth(10_000),
    "bandwidth 2.5M replies": Bandwidth(2_500_000, "replies"),
    "bandwidth 0.5": Bandwidth(0.5),
    "reset": Reset(),
    "refuse": Refuse(),
    "blackhole": BlackHole(),
    "blackhole requests": BlackHole("requests"),
    "blackhole replies": BlackHole("replies"),
    "cut-after 1000": CutAfter(1000),
    "cut-after 1k requests close 3": CutAfter(1000, "requests", "close", 3),
    "cut-after 0 both every": CutAfter(0, "both", times="every"),
    "cut-before COMMIT": CutBefore(b"COMMIT"),
    "cut-before 'INSERT INTO' 2": CutBefore(b"INSERT INTO", 2),
    r"cut-reply '\x00\x3c\r\n\\' every": CutReply(b"\x00<\r\n\\", "every"),
    "cut-reply 7": CutReply(b"7"),
    "cut-reply grün": CutReply("grün".encode()),
    "heal": Heal(),
}
REFUSALS = {
    "": "nothing is no fault",
    "explode": "'explode' is no fault",
    "latency": "a time such as 200ms or 1.5s is missing",
    "latency 200": "'200' is not a time",
    "latency fast": "'fast' is not a time",
    "latency -5ms": "'-5ms' is not a time",
    "latency 5ms requests 3ms": "'3ms' is too much or in the wrong place",
    "bandwidth 10q": "'10q' is not a number of bytes",
    "bandwidth 0": "more than zero",
    "blackhole sideways": "'sideways' is too much",
    "reset now": "'now' is too much",
    "cut-after many": "'many' is not a number of bytes",
    "cut-after 5 explode": "'explode' is too much",
    "cut-before": "the text is missing",
    "cut-before ''": "needs a text",
    "cut-before COMMIT 0": "once or more often",
    r"cut-reply 'a\q'": "is no escape",
    "cut-reply COMMIT every now": "'now' is too much",
}


@pytest.mark.parametrize("line", MEANINGS)
def test_words_name_a_fault_and_a_fault_tells_its_words(line: str) -> None:
    assert parse(shlex.split(line)) == MEANINGS[line]
    assert parse(shlex.split(str(MEANINGS[line]))) == MEANINGS[line]


@pytest.mark.parametrize("line", REFUSALS)
def test_words_that_name_nothing_are_refused_with_the_right_form(line: str) -> None:
    with pytest.raises(CallerError, match=REFUSALS[line]) as refusal:
        parse(shlex.split(line))
    word = line.partition(" ")[0]
    forms = [FORMS[word]] if word in FORMS else FORMS.values()
    assert all(form in refusal.value.hint for form in forms)


def test_every_form_has_a_meaning() -> None:
    assert {line.partition(" ")[0] for line in MEANINGS} == set(FORMS)


def test_values_are_checked_however_they_are_made() -> None:
    with pytest.raises(CallerError):
        Latency(-1.0)
    with pytest.raises(CallerError):
        CutAfter(-1)
    with pytest.raises(CallerError):
        CutReply(b"a", 0)
