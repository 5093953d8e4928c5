"""One way for tests to analyse a text."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from headrace_smap.analytics.modules import NAMES, AnalysisContext, Draft, Pipeline, pipeline

NOW = datetime(2026, 1, 15, 12, tzinfo=UTC)


@cache
def modules(*names: str) -> Pipeline:
    """A pipeline that is made once for all tests: it holds nothing of a post."""
    return pipeline(names or NAMES)


def analysed(text: str, *keywords: str, **fields: object) -> Draft:
    """The finished draft of a post with this text."""
    post = {"id": "post-1", "platform": "tiktok", "text": text, **fields}
    return modules().apply(post, AnalysisContext(NOW, keywords))


def words(text: str) -> list[str]:
    """All words of a text as the lists see them."""
    return [word for sentence in analysed(text).sentences for word in sentence.words]
