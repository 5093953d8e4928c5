"""A model may take the place of the sentiment rules."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from smap_module_drafting import NOW
from smap_tiny_model import written

from headrace.errors import CallerError
from headrace_smap.analytics.modules import AnalysisContext, Draft, ModuleOptions, Pipeline, pipeline
from headrace_smap.analytics.modules.sentiment.model import RUN_TOKENS_MAX, ModelSentiment, open_session


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return written(tmp_path)


def with_model(path: Path) -> Pipeline:
    return pipeline(options=ModuleOptions.read({"SMAP_SENTIMENT_MODEL": str(path)}))


def judged(path: Path, text: str) -> Draft:
    return with_model(path).apply({"id": "1", "platform": "x", "text": text}, AnalysisContext(NOW))


def test_the_model_judges_the_text(model: Path) -> None:
    good, bad, neither = judged(model, "xe đẹp"), judged(model, "xe tệ"), judged(model, "xe xe xe")
    assert (good.sentiment, bad.sentiment, neither.sentiment) == ("positive", "negative", "neutral")
    assert good.sentiment_score == -bad.sentiment_score
    assert 0.9 < good.sentiment_score < 1
    assert neither.sentiment_score == 0


def test_the_model_judges_each_aspect_by_its_clause(model: Path) -> None:
    draft = judged(model, "pin tệ, màn hình đẹp")
    assert draft.aspect_sentiments["battery"]["label"] == "negative"
    assert draft.aspect_sentiments["screen"]["label"] == "positive"
    assert set(draft.aspect_sentiments) == set(draft.aspects)


def test_an_empty_text_and_a_long_one_are_judged(model: Path) -> None:
    assert judged(model, "").sentiment in ("neutral", "negative", "positive")
    assert judged(model, "đẹp " * 1_200).sentiment == "positive"


class CountedRuns:
    """A real session that counts what it is asked."""

    def __init__(self, model: bytes) -> None:
        self._session = open_session(model)
        self.shapes: list[tuple[int, int]] = []

    def get_inputs(self) -> Sequence[Any]:
        return self._session.get_inputs()

    def run(self, outputs: None, feed: Mapping[str, Any]) -> Sequence[Any]:
        self.shapes.append(feed["input_ids"].shape)
        return self._session.run(outputs, feed)


def counted(path: Path, texts: Sequence[str]) -> tuple[list[Draft], list[tuple[int, int]]]:
    """The drafts of a batch, and the shapes of the runs that it took."""
    sessions: list[CountedRuns] = []

    def opened(model: bytes) -> CountedRuns:
        sessions.append(CountedRuns(model))
        return sessions[-1]

    modules = Pipeline([*pipeline(("prepare", "aspects")).modules, ModelSentiment(path, opened)])
    posts = [{"id": "1", "platform": "x", "text": text} for text in texts]
    return modules.analyse(posts, AnalysisContext(NOW)), sessions[0].shapes


def test_a_batch_of_posts_is_one_run(model: Path) -> None:
    texts = ["xe đẹp", "pin tệ, màn hình đẹp", "", "xe tệ " * 20] * 25
    drafts, shapes = counted(model, texts)
    assert [rows for rows, _ in shapes] == [len(texts) + sum(len(draft.aspects) for draft in drafts)]
    alone = {text: judged(model, text) for text in set(texts)}
    for text, draft in zip(texts, drafts, strict=True):
        assert (draft.sentiment, draft.sentiment_score) == (alone[text].sentiment, alone[text].sentiment_score)
        assert draft.aspect_sentiments == alone[text].aspect_sentiments


def test_long_texts_are_run_in_parts_of_bounded_size(model: Path) -> None:
    drafts, shapes = counted(model, ["xe đẹp", *["đẹp " * 1_000] * 99])
    assert 1 < len(shapes) < 5
    assert all(rows * tokens <= RUN_TOKENS_MAX for rows, tokens in shapes)
    assert {draft.sentiment for draft in drafts} == {"positive"}


def test_an_answer_that_leads_by_little_is_uncertain(model: Path) -> None:
    assert judged(model, "xe đẹp mà tệ").uncertain["sentiment"]["margin"] < 0.2
    assert judged(model, "xe đẹp").uncertain.get("sentiment") is None


def test_labels_stand_in_the_order_of_the_model(tmp_path: Path) -> None:
    assert judged(written(tmp_path, ("POS", "NEU", "NEG")), "đẹp").sentiment == "negative"


def test_another_model_is_another_version(model: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = written(tmp_path_factory.mktemp("other"), ("POS", "NEU", "NEG"))
    versions = {with_model(model).model_version, with_model(other).model_version, pipeline().model_version}
    assert len(versions) == 3
    assert with_model(model).model_version in versions


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "config.json"])
def test_a_file_that_is_missing_or_broken_is_named(model: Path, name: str) -> None:
    path = model.parent / name
    path.write_bytes(b"\xff{")
    said = "the model" if name == "model.onnx" else name
    with pytest.raises(CallerError, match=said):
        with_model(model)
    path.unlink()
    with pytest.raises(CallerError, match=name):
        with_model(model)


def test_a_library_that_is_not_installed_is_named_with_the_way_to_get_it(model: Path, tmp_path: Path) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('not here')", "utf-8")
    script = (
        "import sys, pathlib\n"
        "from headrace_smap.analytics.modules import ModuleOptions, pipeline\n"
        "from headrace.errors import MissingExtra\n"
        "try:\n    pipeline(options=ModuleOptions(sentiment_model=pathlib.Path(sys.argv[1])))\n"
        "except MissingExtra as missing:\n    print(missing, missing.hint)"
    )
    command = [sys.executable, "-c", script, str(model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)})
    assert done.stdout.strip() == "SMAP_SENTIMENT_MODEL needs onnxruntime pip install 'headrace-smap[model]'"
