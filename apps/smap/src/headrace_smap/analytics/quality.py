"""How good the modules are, with models or without, on posts that people labelled by hand.

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
from headrace_smap.analytics.trainer.label_file import LabelledText
from headrace_smap.analytics.trainer.score import Score
from headrace_smap.analytics.trainer.trainer import answer, drafted

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
    posts = [post for post in labelled() if post.part == part]
    answers = [*zip(posts, chosen.analyse(map(_raw, posts), context), strict=True)]
    return [_figures(task, [*_pairs(task, answers)]) for task in TASKS[:-1]] + [_aspect_figures(answers)]


def rendered(rules: Pipeline | None = None, adopted: Pipeline | None = None) -> str:
    """Both parts as a table for people: what the rules do, and beside it what they do with models, if there are any."""
    head = f"{'part':<10}{'task':<11}{'posts':>6}{'accuracy':>10}{'macro F1':>10}"
    lines = [head + (f"{'with models':>14}{'macro F1':>10}" if adopted else "")]
    for part in (HELD_OUT, TUNE):
        beside = assess(part, adopted) if adopted else [None] * len(TASKS)
        for found, other in zip(assess(part, rules), beside, strict=True):
            line = f"{part:<10}{found.task:<11}{found.posts:>6}{found.accuracy:>10.3f}{found.macro_f1:>10.3f}"
            lines.append(line + (f"{other.accuracy:>14.3f}{other.macro_f1:>10.3f}" if other else ""))
    return "\n".join(lines)


def shipped(module: str) -> list[LabelledText]:
    """The posts of ours that models may learn from: none that are held out."""
    posts = [post for post in labelled() if post.part == TUNE and not post.spam and post.language != OTHER]
    return [LabelledText(post.text, answer(post, module)) for post in posts]


def scores(rows: Sequence[LabelledText], module: str, modules: Pipeline) -> Score:
    """How modules do on labels of other people."""
    drafts = drafted(modules, [row.text for row in rows])
    return Score.of([row.labels for row in rows], [answer(draft, module) for draft in drafts])


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
    score = Score.of(*([frozenset((pair[place],)) for pair in pairs] for place in (0, 1)))
    return Figures(task, len(pairs), round(score.accuracy, 3), round(score.macro_f1, 3))


def _aspect_figures(answers: Sequence[tuple[Labelled, Draft]]) -> Figures:
    plain = [(post, draft) for post, draft in answers if not post.spam and post.language != OTHER]
    spoken = [(set(post.aspects), set(draft.aspects)) for post, draft in plain]
    hit = sum(len(expected & found) for expected, found in spoken)
    wrong = sum(len(found - expected) for expected, found in spoken)
    missed = sum(len(expected - found) for expected, found in spoken)
    exact = sum(expected == found for expected, found in spoken)
    f1 = 2 * hit / (2 * hit + wrong + missed) if hit else 0.0
    return Figures("aspects", len(spoken), round(exact / len(spoken), 3), round(f1, 3))
