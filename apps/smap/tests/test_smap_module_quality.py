"""The quality that the documentation states is the quality that is measured."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace_smap.analytics import quality
from headrace_smap.analytics.modules import pipeline
from headrace_smap.analytics.modules.aspects import NO_ASPECT
from headrace_smap.analytics.modules.intent import INTENTS
from headrace_smap.analytics.modules.text.lexicons import entries_of

STATED = {
    # task: accuracy and macro F1 of posts that nobody had seen while the lists grew
    "sentiment": (0.84, 0.84),
    "intent": (0.70, 0.71),
    "spam": (0.98, 0.96),
    "language": (0.98, 0.96),
    "aspects": (0.54, 0.62),
}


@pytest.fixture(scope="module")
def held_out() -> dict[str, quality.Figures]:
    return {found.task: found for found in quality.assess(quality.HELD_OUT)}


@pytest.mark.parametrize("task", quality.TASKS)
def test_the_modules_are_as_good_as_stated_on_posts_they_were_not_made_for(
    held_out: dict[str, quality.Figures], task: str
) -> None:
    accuracy, macro_f1 = STATED[task]
    assert held_out[task].accuracy >= accuracy
    assert held_out[task].macro_f1 >= macro_f1


def test_modules_that_look_at_nothing_are_found_out() -> None:
    blind = {found.task: found for found in quality.assess(quality.HELD_OUT, pipeline(("nothing",)))}
    assert all(found.macro_f1 < STATED[task][1] - 0.3 for task, found in blind.items())


def test_the_labelled_posts_are_many_and_no_text_is_in_both_parts() -> None:
    posts = quality.labelled()
    parts = Counter(post.part for post in posts)
    assert parts[quality.HELD_OUT] >= 150
    assert parts[quality.TUNE] >= 300
    assert len({post.text for post in posts}) == len(posts) == len({post.id for post in posts})
    assert {"marked", "bare", "teencode", "plain", "spam", "sarcasm"} == {post.kind for post in posts}


def test_every_label_is_one_that_a_module_can_give() -> None:
    aspects = set(entries_of("aspects.txt").values()) - {NO_ASPECT}
    for post in quality.labelled():
        assert post.sentiment in ("positive", "neutral", "negative"), post
        assert post.intent in INTENTS, post
        assert post.language in ("vi", "en", "mixed", "other", "unknown"), post
        assert set(post.aspects) <= aspects, post


def test_the_table_names_every_task_of_both_parts() -> None:
    lines = quality.rendered().splitlines()
    assert len(lines) == 1 + 2 * len(quality.TASKS)
    assert lines[1].split()[:2] == ["held-out", "sentiment"]
