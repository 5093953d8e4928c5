"""The level of an event: what goes wrong is seen without asking for it."""

from __future__ import annotations

import logging

import pytest
from runtime_bench import Heard

from headrace.runtime.observe import Observer


@pytest.mark.parametrize(
    "event",
    ["schedule.missed", "schedule.refused", "schedule.unreadable", "bus.failing", "event.refused", "new.trouble"],
)
def test_an_event_is_a_warning_unless_it_is_known_to_be_ordinary(heard: Heard, event: str) -> None:
    Observer("w").event(event)
    assert [level for level, _ in heard.of(event)] == ["WARNING"]


@pytest.mark.parametrize("event", ["worker.started", "item.settled", "schedule.fired", "schedule.overlapped"])
def test_what_is_ordinary_is_told_to_those_who_ask(heard: Heard, event: str) -> None:
    logging.getLogger("headrace").setLevel(logging.INFO)
    try:
        Observer("w").event(event)
    finally:
        logging.getLogger("headrace").setLevel(logging.NOTSET)
    assert [level for level, _ in heard.of(event)] == ["INFO"]
