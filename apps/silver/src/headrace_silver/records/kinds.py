"""Which kind of task a record is, told by its fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from headrace_silver.records.values import SA_ARTICLE, TA_BAR, Article, Bar

_BAR_FIELDS = {field.name for field in fields(Bar)}
_ARTICLE_FIELDS = {field.name for field in fields(Article)}
# What both have says nothing.
BAR_ONLY = frozenset(_BAR_FIELDS - _ARTICLE_FIELDS)
ARTICLE_ONLY = frozenset(_ARTICLE_FIELDS - _BAR_FIELDS)


def kind_of(names: Iterable[str]) -> str | None:
    """The kind that more of these names belong to; None if they leave it open. A bad record may lack any one field."""
    present = set(names)
    bar, article = len(present & BAR_ONLY), len(present & ARTICLE_ONLY)
    if bar == article:
        return None
    return TA_BAR if bar > article else SA_ARTICLE
