"""Topics and the patterns that subscribe to them, as in AMQP topic exchanges.

A topic is words separated by dots. In a pattern `*` stands for exactly one word and `#` for any number of them, none
included.
"""

from __future__ import annotations

import re
from functools import lru_cache

from headrace.core.errors import CallerError

TOPIC_CHARS_MAX = 255
_TOPIC = re.compile(r"[^\s.*#]+(\.[^\s.*#]+)*")
_PATTERN = re.compile(r"(\*|#|[^\s.*#]+)(\.(\*|#|[^\s.*#]+))*")


def check_topic(topic: str) -> None:
    if len(topic) > TOPIC_CHARS_MAX or not _TOPIC.fullmatch(topic):
        raise CallerError(
            f"{topic[:TOPIC_CHARS_MAX]!r} is not a topic",
            f"words separated by dots, without spaces, * and #, at most TOPIC_CHARS_MAX = {TOPIC_CHARS_MAX} characters",
        )


def check_pattern(pattern: str) -> None:
    if len(pattern) > TOPIC_CHARS_MAX or not _PATTERN.fullmatch(pattern):
        raise CallerError(
            f"{pattern[:TOPIC_CHARS_MAX]!r} is not a pattern of topics",
            "words separated by dots; * stands for one word, # for any number of words",
        )


@lru_cache(maxsize=10_000)
def matches(pattern: str, topic: str) -> bool:
    """Whether a subscription to `pattern` gets `topic`."""
    words = topic.split(".")
    # reached: after how many words of the topic the pattern read so far can end. No backtracking, however many #.
    reached = {0}
    for part in pattern.split("."):
        if part == "#":
            reached = set(range(min(reached), len(words) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(words) and part in ("*", words[at])}
    return len(words) in reached
