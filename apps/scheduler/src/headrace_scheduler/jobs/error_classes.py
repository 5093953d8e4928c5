"""What failed, in a word."""

from __future__ import annotations


def error_class(reason: str, rule: str) -> str:
    """What failed, in a word: the class of the error, or the rule by which the job is dead. A reason of several words
    is a handler's own text and may quote a payload."""
    return reason if reason.isidentifier() else rule
