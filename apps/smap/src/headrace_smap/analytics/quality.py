"""How good the shipped modules are, on posts that people labelled by hand.

`labelled.jsonl` has two parts. The word lists grew while the first was looked at; the second was written when they were
finished, and nothing was changed for its sake: only its figures say anything about posts that nobody has seen yet.
Language and spam are asked of all posts; intent, sentiment and aspects of those that are no spam and in a language
that the modules speak.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from headrace_smap.analytics.modules import OTHER, AnalysisContext, Draft, Pipeline, pipeline

TUNE, HELD_OUT = "tune", "held-out"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TASKS = ("sentiment", "intent", "spam", "language", "aspects")
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A post and what people say about it."""

    id: str
    part: str
    text: str
    language: str
    kind: str
    sentiment: str
    intent: str
    spam: bool
    aspects: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """How often an answer was right, and the mean of the F1 of all labels (of aspects: F1 over all of them)."""

    task: str
    posts: int
    accuracy: float
    macro_f1: float


def labelled() -> list[Labelled]:
    """All posts that are shipped with their labels."""
    text = files(__package__).joinpath("labelled.jsonl").read_text("utf-8")
    return [_labelled(json.loads(line)) for line in text.splitlines()]


def assess(part: str = HELD_OUT, modules: Pipeline | None = None) -> list[Figures]:
    """The figures of one half, task by task."""
    chosen = modules or pipeline()
    context = AnalysisContext(NOW)
    answers = [(post, chosen.apply(_raw(post), context)) for post in labelled() if post.part == part]
    return [_figures(task, [*_pairs(task, answers)]) for task in TASKS[:-1]] + [_aspect_figures(answers)]


def rendered(parts: Sequence[str] = (HELD_OUT, TUNE)) -> str:
    """A table for people."""
    lines = [f"{'part':<10}{'task':<11}{'posts':>6}{'accuracy':>10}{'macro F1':>10}"]
    lines += [
        f"{part:<10}{found.task:<11}{found.posts:>6}{found.accuracy:>10.3f}{found.macro_f1:>10.3f}"
        for part in parts
        for found in assess(part)
    ]
    return "\n".join(lines)


def _labelled(value: dict[str, Any]) -> Labelled:
    return Labelled(**{**value, "aspects": tuple(value["aspects"])})


def _raw(post: Labelled) -> dict[str, object]:
    return {"id": post.id, "platform": "labelled", "text": post.text}


def _pairs(task: str, answers: Iterable[tuple[Labelled, Draft]]) -> Iterator[Pair]:
    for post, draft in answers:
        if task == "language":
            yield post.language, draft.language
        elif task == "spam":
            yield str(post.spam), str(draft.is_spam)
        elif not post.spam and post.language != OTHER:
            yield getattr(post, task), getattr(draft, task)


def _figures(task: str, pairs: Sequence[Pair]) -> Figures:
    right = sum(expected == found for expected, found in pairs)
    labels = sorted({expected for expected, _ in pairs})
    scores = [_f1(*_counts(label, pairs)) for label in labels]
    return Figures(task, len(pairs), round(right / len(pairs), 3), round(sum(scores) / len(scores), 3))


def _counts(label: str, pairs: Sequence[Pair]) -> tuple[int, int, int]:
    hit = sum(expected == found == label for expected, found in pairs)
    return hit, sum(found == label for _, found in pairs) - hit, sum(expected == label for expected, _ in pairs) - hit


def _aspect_figures(answers: Sequence[tuple[Labelled, Draft]]) -> Figures:
    plain = [(post, draft) for post, draft in answers if not post.spam and post.language != OTHER]
    spoken = [(set(post.aspects), set(draft.aspects)) for post, draft in plain]
    hit = sum(len(expected & found) for expected, found in spoken)
    wrong = sum(len(found - expected) for expected, found in spoken)
    missed = sum(len(expected - found) for expected, found in spoken)
    exact = sum(expected == found for expected, found in spoken)
    return Figures("aspects", len(spoken), round(exact / len(spoken), 3), round(_f1(hit, wrong, missed), 3))


def _f1(hit: int, wrong: int, missed: int) -> float:
    return 2 * hit / (2 * hit + wrong + missed) if hit else 0.0
