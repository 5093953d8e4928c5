"""The quality report as one JSON document with stable keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from headrace_silver.quality.values import CELL_WORDS, BandBreak, Quality, SymbolQuality
from headrace_silver.report.text import headline, note_text, spans
from headrace_silver.report.words import ENGLISH


def document(quality: Quality) -> dict[str, Any]:
    """Everything the report knows; a symbol's `cells` has one letter per entry of `days`."""
    good, sentence = headline(ENGLISH, quality)
    return {
        "ok": good,
        "headline": sentence,
        "made_at": quality.made_at.isoformat(timespec="seconds"),
        "last_closed_day": quality.last_closed.isoformat(),
        "days": [day.isoformat() for day in quality.days],
        "cells": {**CELL_WORDS, " ": "not expected"},
        "scrape_slow": quality.slow,
        "completeness": quality.completeness,
        "late": [entry.symbol for entry in quality.late],
        "stopped": [entry.symbol for entry in quality.stopped],
        "symbols": [_symbol(entry, quality) for entry in quality.symbols],
        "band_breaks": [_band_break(entry) for entry in quality.band_breaks],
        "rejects": [
            {"day": entry.day.isoformat(), "rule": entry.rule, "count": entry.count} for entry in quality.rejects
        ],
        "rejects_by_rule": quality.rejects_by_rule,
        "closed_letters": [{**asdict(entry), "closed_at": entry.closed_at.isoformat()} for entry in quality.closed],
        "articles": asdict(quality.articles),
        "notes": [note_text(ENGLISH, note) for note in quality.notes],
    }


def _symbol(entry: SymbolQuality, quality: Quality) -> dict[str, Any]:
    return {
        "symbol": entry.symbol,
        "exchange": entry.exchange,
        "first_day": entry.first_day.isoformat(),
        "last_day": entry.last_day.isoformat(),
        "days_behind": entry.behind,
        "stopped": entry.stopped,
        "expected": entry.expected,
        "present": entry.present,
        "missing": [[first.isoformat(), last.isoformat()] for first, last in spans(entry.cells, quality.days)],
        "never_came": entry.missing - len(entry.rejections),
        "missing_rejected": [
            {"day": day.isoformat(), "rule": why.rule, "letter": why.letter} for day, why in entry.rejections.items()
        ],
        "completeness": entry.completeness,
        "validity": entry.validity,
        "rejected": dict(entry.rejected),
        "revisions": entry.revisions,
        "band_days": entry.band_days,
        "tick_days": entry.tick_days,
        "closed_days": entry.closed_days,
        "cells": entry.cells,
    }


def _band_break(entry: BandBreak) -> dict[str, Any]:
    return {**asdict(entry), "day": entry.day.isoformat(), "change": entry.change}
