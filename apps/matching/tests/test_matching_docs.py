"""The page says what is so."""

from __future__ import annotations

from pathlib import Path

from headrace.services import table
from headrace_matching.events.names import NAMES
from headrace_matching.settings import PREFIX, MatchingSettings

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "matching.md").read_text("utf-8")


def test_the_page_has_every_setting_and_every_event() -> None:
    assert table(MatchingSettings, PREFIX) in PAGE
    assert [name for name in NAMES if name not in PAGE] == []
