"""Modules by name: ours, other people's, and none."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest
from smap_module_drafting import NOW, analysed, modules

import headrace_smap
from headrace.errors import CallerError
from headrace_smap.analytics.modules import (
    COLUMNS,
    NAMES,
    NOTHING,
    AnalysisContext,
    Draft,
    ModuleOptions,
    Pipeline,
    RawPost,
    pipeline,
)

POST = {"id": "1", "platform": "x", "text": "Xe đẹp 😍"}


class Shout:
    name = "shout"
    version = "1"

    def apply(self, draft: Draft) -> None:
        draft.text = draft.text.upper()


class Break:
    name = "break"
    version = "1"

    def apply(self, draft: Draft) -> None:
        raise ValueError(draft.post.id)


class Batches:
    """Takes drafts together, and remembers how many."""

    name = "batches"
    version = "1"

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def apply_all(self, drafts: Sequence[Draft]) -> None:
        self.sizes.append(len(drafts))
        for draft in drafts:
            if draft.post.text == "bad":
                raise SystemExit(draft.post.id)
            draft.text = draft.post.text.upper()


def drafts_of(*texts: str) -> list[Draft]:
    return [
        Draft.of(RawPost(id=str(number), platform="x", text=text), AnalysisContext(NOW))
        for number, text in enumerate(texts)
    ]


def test_a_module_that_takes_batches_gets_them() -> None:
    batches = Batches()
    Pipeline([batches]).analyse([POST] * 250, AnalysisContext(NOW))
    assert batches.sizes == [100, 100, 50]


def test_a_draft_that_fails_in_a_batch_ends_alone_and_no_further_module_sees_it() -> None:
    drafts, last = drafts_of("a", "bad", "c"), Batches()
    faults = Pipeline([Batches(), last]).run(drafts)
    assert [fault and (str(fault), fault.__notes__) for fault in faults] == [None, ("1", ["module:batches"]), None]
    assert [draft.text for draft in drafts] == ["A", "bad", "C"]
    assert last.sizes == [2]


def test_the_five_modules_are_the_default() -> None:
    assert ModuleOptions.read({}).modules == NAMES == ("prepare", "intent", "aspects", "sentiment", "impact")
    assert ModuleOptions.read({"SMAP_MODULES": " prepare, impact ,"}).modules == ("prepare", "impact")


def test_a_row_has_plain_values_under_their_names() -> None:
    row = dict(zip(COLUMNS, analysed("Xe đẹp #VF3", "VF3", metrics={"likes": 7}).values(), strict=True))
    assert json.loads(json.dumps(row)) == row
    assert (row["likes"], row["hashtags"], row["keywords"], row["language"]) == (7, ["VF3"], ["VF3"], "vi")


def test_doing_nothing_makes_a_complete_row() -> None:
    draft = modules(NOTHING).apply(POST, AnalysisContext(NOW))
    assert len(draft.values()) == len(COLUMNS)
    assert (draft.text, draft.language, draft.sentiment, draft.intent, draft.risk) == (
        "Xe đẹp 😍",
        "unknown",
        "neutral",
        "other",
        "LOW",
    )


def test_the_model_version_follows_from_the_modules() -> None:
    assert pipeline().model_version == pipeline(NAMES).model_version
    assert pipeline((NOTHING,)).model_version != pipeline().model_version


@pytest.mark.parametrize("name", ["sentiment_vi.txt", "teencode.tsv"])
def test_a_word_list_that_was_edited_is_another_model_version(tmp_path: Path, name: str) -> None:
    package = Path(headrace_smap.__file__).parent
    shutil.copytree(package, tmp_path / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    script = "from headrace_smap.analytics.modules import pipeline; print(pipeline().model_version)"

    def version() -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)})
        return done.stdout.strip()

    assert version() == pipeline().model_version
    with (tmp_path / package.name / "analytics" / "modules" / "text" / "data" / name).open(
        "a", encoding="utf-8"
    ) as words:
        words.write("\n# read once more\n" if name.endswith(".txt") else "zzz\tngủ\n")
    assert version() != pipeline().model_version


def test_an_unknown_module_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(CallerError, match="no module 'sentimant'") as refused:
        pipeline(("prepare", "sentimant"))
    assert "sentiment" in refused.value.hint


def test_a_module_before_the_one_it_needs_is_refused() -> None:
    with pytest.raises(CallerError, match="sentiment needs prepare"):
        pipeline(("sentiment", "prepare"))


def test_modules_of_other_people_come_by_entry_point(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "class Loud:\n    name = 'loud'\n    version = '7'\n    def __init__(self, options): pass\n"
        "    def apply(self, draft):\n        draft.text = draft.text.upper()\n",
        "utf-8",
    )
    known = tmp_path / "loud-1.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n", "utf-8")
    (known / "entry_points.txt").write_text("[headrace.smap.modules]\nloud = loud:Loud\n", "utf-8")
    script = (
        "import datetime as d\nfrom headrace_smap.analytics.modules import AnalysisContext, pipeline\n"
        "p = pipeline(('loud',))\n"
        "print(p.apply({'id': 1, 'platform': 'x', 'text': 'abc'}, AnalysisContext(d.datetime.now(d.UTC))).text)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.strip() == "ABC"


def test_modules_apply_in_order_and_a_failure_names_its_module() -> None:
    assert Pipeline([Shout()]).apply(POST, AnalysisContext(NOW)).text == "XE ĐẸP 😍"
    with pytest.raises(ValueError, match="1") as failed:
        Pipeline([Shout(), Break()]).apply(POST, AnalysisContext(NOW))
    assert failed.value.__notes__ == ["module:break"]


def test_the_same_post_gives_the_same_draft() -> None:
    first, again = analysed("Xe đẹp nhưng pin yếu"), analysed("Xe đẹp nhưng pin yếu")
    assert first == again


def test_a_draft_travels_between_processes() -> None:
    draft = analysed("Xe đẹp nhưng pin yếu 😍", "xe")
    # Copying takes apart and puts together what a process pool would send.
    assert copy.deepcopy(draft) == draft


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(CallerError, match="time zone"):
        AnalysisContext(datetime(2026, 1, 1))


def test_options_come_from_the_environment() -> None:
    assert ModuleOptions.read({"SMAP_ASPECTS": "a.txt"}) == ModuleOptions(aspects_file=Path("a.txt"))
    assert ModuleOptions.read({"SMAP_ASPECTS": ""}) == ModuleOptions()
