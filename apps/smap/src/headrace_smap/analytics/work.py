"""Blobs through the modules: pure computing, in a thread or in a child process.

Whatever a post does to a module is that post's own fault and nobody else's. A row leaves here as the JSON text in which
it is stored, so that nobody has to take it apart on the way. Between processes, work and outcomes pass as frames of a
length and a msgpack body.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import msgspec

from headrace.tables import time_text
from headrace_smap.analytics.blob_values import BadBlob, read_blob
from headrace_smap.analytics.modules import BATCH_MAX, AnalysisContext, Draft, InvalidPost, Pipeline, RawPost
from headrace_smap.analytics.modules import COLUMNS as DRAFT_COLUMNS
from headrace_smap.analytics.posts import KEYWORD_CHARS_MAX, AnalysisResult, Fault, fault_of, text_of
from headrace_smap.days import VIETNAM, day_of
from headrace_smap.envelope import moment

FRAME = struct.Struct(">I")
encode_body = msgspec.msgpack.Encoder().encode
MODULE_FAILED = "module_failed"
_encode = msgspec.json.Encoder().encode


class Work(msgspec.Struct, frozen=True, array_like=True):
    """One post to be analysed; `keywords` are those of its project, `keyword` the one it was found by, and `until` is
    where the days of its project end, which are days of `timezone`."""

    project: str
    path: str
    raw: bytes
    keyword: str = ""
    crawled_at: str = ""
    keywords: tuple[str, ...] = ()
    until: datetime | None = None
    timezone: str = VIETNAM.key


_ABOUT = ("project_id", "minio_path", "keyword", "crawled_at", "published_at", "day", "analyzed_at", "model_version")
COLUMNS = (*_ABOUT, *DRAFT_COLUMNS, "timezone")
"""A row is a list of these. Without their names it has half the size, and the database reads it in half the time."""
Outcome = tuple[AnalysisResult | None, Fault | None]


def analyse(pipeline: Pipeline, works: Sequence[Work], now: datetime) -> list[Outcome]:
    """What becomes of each, in their order."""
    outcomes: list[Outcome] = []
    for first in range(0, len(works), BATCH_MAX):
        outcomes += _analysed(pipeline, works[first : first + BATCH_MAX], now)
    return outcomes


def _analysed(pipeline: Pipeline, works: Sequence[Work], now: datetime) -> list[Outcome]:
    wanted = {(work.keywords, work.until, work.timezone) for work in works}
    contexts = {each: AnalysisContext(now, each[0], each[1], ZoneInfo(each[2])) for each in wanted}
    begun = [_begun(work, contexts[work.keywords, work.until, work.timezone]) for work in works]
    faults = iter(pipeline.run([draft for draft in begun if isinstance(draft, Draft)]))
    told = (time_text(now), pipeline.model_version, moment(now))
    outcomes: list[Outcome] = []
    for work, draft in zip(works, begun, strict=True):
        if isinstance(draft, Fault):
            outcomes.append((None, draft))
        elif fault := next(faults):
            outcomes.append((None, fault_of(MODULE_FAILED, fault)))
        else:
            outcomes.append(_result(work, draft, told))
    return outcomes


def _begun(work: Work, context: AnalysisContext) -> Draft | Fault:
    try:
        return Draft.of(RawPost.read(read_blob(work.raw), context.zone), context)
    except (BadBlob, InvalidPost) as error:
        return Fault(error.rule, str(error))
    except Exception as error:
        return fault_of(MODULE_FAILED, error)


def _result(work: Work, draft: Draft, told: tuple[str, str, str]) -> Outcome:
    analyzed_at, version, told_at = told
    try:
        row = _encode((*_about(work, draft), analyzed_at, version, *draft.values(), work.timezone))
    except Exception as error:
        # What another module filled in may be no value of a row.
        return None, fault_of(MODULE_FAILED, error)
    post = draft.post
    return AnalysisResult(row, post.id, post.platform, draft.sentiment, draft.risk, told_at), None


def _about(work: Work, draft: Draft) -> tuple[object, ...]:
    published_at = draft.post.published_at
    published = published_at and time_text(published_at)
    day = day_of(published_at or draft.context.now, draft.context.zone)
    return work.project, work.path, _keyword(work, draft), work.crawled_at, published, day


def _keyword(work: Work, draft: Draft) -> str:
    """What the post was found by. Messages need not say it; crawlers of ours write it into the post, because a search
    finds more than texts that hold its word."""
    if work.keyword.strip():
        return work.keyword
    written = text_of(draft.post.others.get("keyword"), KEYWORD_CHARS_MAX)
    return written if written.strip() else next(iter(draft.keywords), "")
