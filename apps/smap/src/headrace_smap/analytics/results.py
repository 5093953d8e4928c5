"""What a batch of posts leaves behind: rows, ends and events. All of it can be written again without harm."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headrace.ports import Event
from headrace_smap import envelope
from headrace_smap.analytics.posts import HandledPost
from headrace_smap.count.accountant import ItemEnd
from headrace_smap.database import Step

CANCELLED = "cancelled"


def rows(posts: Sequence[HandledPost]) -> list[Step]:
    """The results in one statement. Every row is JSON already."""
    found = [post.found.row for post in posts if post.found]
    if not found:
        return []
    projects = tuple({post.project for post in posts})
    return [("upsert_post_analytics", {"rows": (b"[" + b",".join(found) + b"]").decode(), "projects": projects})]


def ends(posts: Sequence[HandledPost]) -> list[ItemEnd]:
    """How they are counted."""
    return [_end(post) for post in posts]


def events(posts: Sequence[HandledPost], now: datetime) -> list[Event]:
    """What is told of those that were analysed."""
    told = []
    for post in posts:
        if post.found:
            result = {
                "post_id": post.found.post_id,
                "platform": post.found.platform.upper(),
                "sentiment": post.found.sentiment,
                "risk": post.found.risk,
                "analyzed_at": post.found.analyzed_at,
            }
            event = envelope.analysis_finished(post.project, post.path, result, now)
            told.append(envelope.traced(event, post.traceparent))
    return told


def _end(post: HandledPost) -> ItemEnd:
    if post.fault:
        return ItemEnd(post.project, post.item, False, f"{post.fault.rule}: {post.fault.reason}", post.body)
    return ItemEnd(post.project, post.item, True, CANCELLED if post.spared else "", None)
