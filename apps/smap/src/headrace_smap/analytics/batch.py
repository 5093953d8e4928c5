"""Deliveries → posts. Each post is in a batch once, however often it was told; what nobody can read is put aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.consuming import Delivery, Event, trace_of
from headrace_smap import envelope
from headrace_smap.analytics.posts import KEYWORD_CHARS_MAX, Fault, HandledPost, item_of_message, text_of
from headrace_smap.count.truth import item_name

CRAWLED_CHARS_MAX = 100


@dataclass(slots=True)
class PostBatch:
    """`posts` belong to a project and are counted, those with a fault too. `strays` belong to none."""

    posts: list[HandledPost] = field(default_factory=list)
    strays: list[HandledPost] = field(default_factory=list)
    repeats: int = 0


def read_batch(deliveries: Sequence[Delivery]) -> PostBatch:
    """In the order in which they were delivered."""
    batch = PostBatch()
    seen: dict[tuple[str, str], HandledPost] = {}
    for delivery in deliveries:
        post = _read(delivery)
        if not post.project:
            batch.strays.append(post)
        elif (first := seen.setdefault(post.name, post)) is post:
            batch.posts.append(post)
        else:
            batch.repeats += 1
            first.suspect |= post.suspect
            first.deliveries = max(first.deliveries, post.deliveries)
    return batch


def _read(delivery: Delivery) -> HandledPost:
    post = post_of(delivery.event)
    post.deliveries, post.suspect = delivery.deliveries, delivery.alone or delivery.deliveries > 1
    return post


def post_of(event: Event) -> HandledPost:
    """The post that a message tells of; one that tells of none has a fault, and no project if it names none."""
    project = ""
    try:
        message = envelope.read(event.body)
        project = message.project
        told = envelope.collected(message)
    except envelope.Malformed as error:
        # Somebody expects this post: without a path it is counted under a name of its own.
        post = HandledPost(project, item_of_message(event.body), "", event.body)
        post.fault = Fault(error.rule, error.reason)
    else:
        path = told.minio_path
        post = HandledPost(project, item_name(path), path, event.body)
        post.told_at, post.crawled_at = message.timestamp, text_of(told.crawled_at, CRAWLED_CHARS_MAX)
        post.keyword = text_of(told.rest.get("keyword"), KEYWORD_CHARS_MAX)
    post.traceparent = trace_of(event)
    return post
