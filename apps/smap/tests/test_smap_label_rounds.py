"""The loop of an analyst: posts to label, a model of the labels, the next posts; and that it improves."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from smap_analytics_desk import open_desk
from smap_module_drafting import modules
from smap_posts import PROJECT, post
from smap_reviews import Review, accuracy, drafts_of, model_file, reviews

from headrace_smap.analytics import quality
from headrace_smap.analytics.modules import ModuleOptions, Pipeline, pipeline
from headrace_smap.analytics.modules.linear.model_file import write
from headrace_smap.analytics.trainer.label_file import LabelledText
from headrace_smap.analytics.trainer.trainer import POSTS_MIN, train
from headrace_smap.settings import SmapSettings

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Running = Callable[..., tuple[int, Any, str]]
REVIEWS = reviews(900, seed=3)
TRUTH = {review.text: review.sentiment for review in REVIEWS}


def with_model(path: Path) -> Pipeline:
    return pipeline(options=ModuleOptions(models=(str(path),)))


def most_uncertain(now: Pipeline, pool: Sequence[Review], count: int) -> list[Review]:
    """What `labels export --uncertain` would give, were they stored."""
    told = zip(drafts_of(now, pool), pool, strict=True)
    doubted = [(draft.uncertain["sentiment"]["margin"], post.text, post) for draft, post in told if draft.uncertain]
    return [post for _, _, post in sorted(doubted)[:count]]


def test_an_analyst_improves_a_generated_corpus_in_rounds(tmp_path: Path) -> None:
    pool, unseen = REVIEWS[:600], REVIEWS[600:]
    known, figures = pool[:60], [accuracy(modules(), unseen)]
    for round_ in range(3):
        now = with_model(model_file(tmp_path / f"{round_}.model", known, modules()))
        figures.append(accuracy(now, unseen))
        known = [*known, *most_uncertain(now, [post for post in pool if post not in known], 40)]
    assert figures[0] < 0.7
    assert figures == sorted(figures)
    assert figures[-1] > 0.97


def part_of(posts: Sequence[LabelledText], share: int) -> list[LabelledText]:
    """So many of them, and of each label as many as are needed."""
    by_label: dict[frozenset[str], list[LabelledText]] = {}
    for each in posts:
        by_label.setdefault(each.labels, []).append(each)
    return [each for same in by_label.values() for each in same[: max(len(same) // share, POSTS_MIN)]]


@pytest.mark.parametrize(("module", "least"), [("sentiment", 0.04), ("intent", 0.02)])
def test_labels_of_shipped_posts_improve_what_is_held_out(tmp_path: Path, module: str, least: float) -> None:
    rules = next(found.accuracy for found in quality.assess(quality.HELD_OUT) if found.task == module)
    figures = []
    for share in (2, 1):
        write(tmp_path / "m", train(part_of(quality.shipped(module), share), module, modules()).model)
        adopted = quality.assess(quality.HELD_OUT, with_model(tmp_path / "m"))
        figures.append(next(found.accuracy for found in adopted if found.task == module))
    assert figures[0] < figures[1]
    assert figures[1] >= rules + least


def test_posts_of_ours_are_learned_from_and_not_asked() -> None:
    shipped = quality.shipped("sentiment")
    held_out = {post.text for post in quality.labelled() if post.part == quality.HELD_OUT}
    assert not held_out & {post.text for post in shipped}
    own = [post for post in shipped if post.labels == {"neutral"}][:5]
    found = train(own, "sentiment", modules(), also=shipped)
    assert (found.posts, found.model.trained_on["neutral"]) == (5, 151)


@pytest.fixture
def running(headrace_command: Command, embedded: SmapSettings) -> Running:
    """A command on the embedded parts: its exit code, what it answers as JSON, and what it says."""

    def run(*arguments: str, **variables: str) -> tuple[int, Any, str]:
        for name in [name for name in os.environ if name.startswith("SMAP_")]:
            del os.environ[name]
        done = headrace_command("smap", *arguments, **{"SMAP_HOME": str(embedded.home), **variables})
        answer = json.loads(done.stdout) if done.returncode == 0 and "--json" in arguments else done.stdout
        return done.returncode, answer, done.stderr

    return run


def write_csv(path: Path, posts: Sequence[Review], label: str = "label") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", label), *((post.text, post.sentiment) for post in posts)])
    return path


def test_train_says_how_a_model_does_and_quality_measures_what_is_adopted(running: Running, tmp_path: Path) -> None:
    file, to = write_csv(tmp_path / "labels.csv", REVIEWS[:200]), tmp_path / "sentiment.model"
    code, told, _ = running("train", str(file), "--to", str(to), "--json")
    assert (code, told["posts"], told["folds"], told["file"]) == (0, 200, 5, str(to))
    assert told["model"]["accuracy"] > told["rules"]["accuracy"] + 0.2
    assert told["model"]["recall"].keys() == {"negative", "neutral", "positive"}
    again = running("train", str(file), "--to", str(tmp_path / "again"), "--json")[1]
    assert again["digest"] == told["digest"]
    for_people = running("train", str(file), "--to", str(to))[1]
    assert "recall of negative" in for_people
    assert f"SMAP_MODELS={to} adopts it" in for_people
    theirs = str(write_csv(tmp_path / "theirs.csv", REVIEWS[600:], "airline_sentiment"))
    code, told, _ = running("quality", theirs, "--label", "airline_sentiment", "--json", SMAP_MODELS=str(to))
    assert (code, told["posts"]) == (0, 300)
    assert told["models"]["accuracy"] > told["rules"]["accuracy"] + 0.2
    assert "with models" in running("quality", SMAP_MODELS=str(to))[1]


def test_a_model_of_the_shipped_posts_alone_is_measured_by_those_held_out(running: Running, tmp_path: Path) -> None:
    to = tmp_path / "m.model"
    told = running("train", "--shipped", "--to", str(to), "--json")[1]
    assert (told["posts"], told["shipped"]) == (0, 439)
    said = running("train", "--shipped", "--to", str(to))[1]
    assert f"SMAP_MODELS={to} headrace smap quality" in said
    assert "is written" in said
    figures = {each["task"]: each for each in running("quality", "--json", SMAP_MODELS=str(to))[1]}
    assert figures["sentiment"]["models"]["accuracy"] > figures["sentiment"]["accuracy"] + 0.04


def test_what_cannot_be_trained_is_refused_with_words_and_a_code(running: Running, tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("text,label\na,angry\n", "utf-8")
    code, _, said = running("train", str(file))
    assert (code, "line 2: 'angry' is no label of sentiment" in said) == (2, True)
    code, _, said = running("train")
    assert (code, "nothing to learn from" in said) == (2, True)
    file.write_text("text,label\na,\n", "utf-8")
    code, _, said = running("train", str(file))
    assert (code, "no row has a label yet" in said) == (2, True)
    code, _, said = running("quality", SMAP_MODELS=str(file))
    assert (code, "is no model of smap" in said) == (2, True)
    good = write_csv(tmp_path / "good.csv", REVIEWS[:60])
    code, _, said = running("train", str(good), "--to", str(tmp_path / "nowhere" / "m"))
    assert (code, "cannot be written" in said) == (1, True)
    code, _, said = running("labels", "export", "--uncertain")
    assert (code, "there is no smap in" in said) == (3, True)


def fill_in(path: Path) -> None:
    """What an analyst does: read each text, and write what is right."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows({**row, "label": TRUTH[row["text"]]} for row in rows)


async def analysed(settings: SmapSettings, posts: Sequence[Review]) -> None:
    async with open_desk(settings) as desk:
        await desk.store(**{f"p{number}": post(text=each.text) for number, each in enumerate(posts)})
        await desk.seal()
        await desk.handler(modules()).handle(desk.deliveries())


def test_stored_posts_are_labelled_learned_and_analysed_again(
    running: Running, embedded: SmapSettings, tmp_path: Path
) -> None:
    asyncio.run(analysed(embedded, REVIEWS[:150]))
    first, second, model = (tmp_path / name for name in ("first.csv", "second.csv", "m.model"))
    told = running("labels", "export", PROJECT, "--posts-max", "60", "--to", str(first), "--json")[1]
    assert told == {"file": str(first), "posts": 60}
    assert running("train", str(first))[0] == 2, "nothing is filled in"
    fill_in(first)
    assert running("train", str(first), "--to", str(model))[0] == 0
    adopted = {"SMAP_MODELS": str(model), "SMAP_ANALYSTS": "0"}
    assert running("rerun", PROJECT, "--json", **adopted)[1] == {"rewritten": 150, "kept": 0}
    assert running("rerun", PROJECT, "--json", **adopted)[1] == {"rewritten": 0, "kept": 0}
    assert running("labels", "export", "--uncertain", "--posts-max", "30", "--to", str(second))[0] == 0
    fill_in(second)
    told = running("train", str(first), str(second), "--to", str(model), "--json")[1]
    assert 75 < told["posts"] <= 90
    assert running("rerun", PROJECT, "--json", **adopted)[1] == {"rewritten": 150, "kept": 0}
    exported = tmp_path / "posts.csv"
    running("export", PROJECT, str(exported))
    with exported.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["sentiment"] == TRUTH[row["text"]] for row in rows) >= 145
    assert running("labels", "export", "nobody", "--to", str(tmp_path / "none.csv"))[0] == 3
