"""Time that passes by hand, for all contracts of what runs in this process."""

from __future__ import annotations

import pytest

from headrace.testing.passage import ManualClock, ManualPassage, Passage


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def passage(clock: ManualClock) -> Passage:
    return ManualPassage(clock)
