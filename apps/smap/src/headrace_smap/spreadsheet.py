"""Texts of strangers in files that a spreadsheet opens: one that begins like a formula would be run."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def guarded(text: str) -> str:
    """The text as a cell that stays a text."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def unguarded(cell: str) -> str:
    """The text of a cell that was guarded, or of any other."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell
