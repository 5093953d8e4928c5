"""A model of n-grams beside the rules: adopted by a setting, overruled by nobody but its labels, and never silent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from smap_module_drafting import NOW, modules
from smap_reviews import Review, accuracy, drafts_of, learned, model_file, reviews
from smap_tiny_model import written as onnx_written

from headrace.errors import CallerError
from headrace_smap.analytics.modules import AnalysisContext, Draft, ModuleOptions, Pipeline, pipeline
from headrace_smap.analytics.modules.drafts import SENTIMENTS
from headrace_smap.analytics.modules.linear.classifier import LinearModel, judged, judged_many
from headrace_smap.analytics.modules.linear.model_file import MAGIC, read, write
from headrace_smap.analytics.modules.linear.ngrams import Hashing, ngrams
from headrace_smap.analytics.trainer.label_file import LabelledText
from headrace_smap.analytics.trainer.trainer import train

REVIEWS = reviews(400, seed=7)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return model_file(tmp_path_factory.mktemp("models") / "sentiment.model", REVIEWS[:200], modules())


def adopted(*paths: Path) -> Pipeline:
    return pipeline(options=ModuleOptions.read({"SMAP_MODELS": ",".join(map(str, paths))}))


def judged_by(modules: Pipeline, text: str) -> Draft:
    return modules.apply({"id": "1", "platform": "x", "text": text}, AnalysisContext(NOW))


def test_an_adopted_model_finds_what_the_rules_do_not(path: Path) -> None:
    rules, both = accuracy(modules(), REVIEWS[200:]), accuracy(adopted(path), REVIEWS[200:])
    assert rules < 0.75
    assert both > 0.95


def test_without_a_model_the_rules_answer() -> None:
    assert ModuleOptions.read({"SMAP_MODELS": ""}) == ModuleOptions()
    assert adopted().model_version == pipeline().model_version


@pytest.mark.parametrize("text", ["", "这个产品非常好，我很喜欢", "👍", "https://example.com/x"])
def test_of_what_the_model_cannot_know_the_rules_answer(path: Path, text: str) -> None:
    alone, both = judged_by(modules(), text), judged_by(adopted(path), text)
    assert (both.sentiment, both.sentiment_score) == (alone.sentiment, alone.sentiment_score)


def test_labels_and_scores_stay_what_the_rules_could_say(path: Path) -> None:
    for draft in drafts_of(adopted(path), REVIEWS):
        assert draft.sentiment in SENTIMENTS
        score = draft.sentiment_score
        assert {"positive": score >= 0.2, "negative": score <= -0.2, "neutral": abs(score) < 0.2}[draft.sentiment]


def test_disagreement_and_a_small_lead_are_uncertain_and_agreement_is_not(path: Path) -> None:
    both = adopted(path)
    overruled = judged_by(both, "balo để trưng cho chuột gặm")
    assert overruled.sentiment == "negative"
    assert overruled.uncertain["sentiment"]["rules"] != overruled.uncertain["sentiment"]["model"] == "negative"
    for draft in drafts_of(both, REVIEWS):
        doubt = draft.uncertain.get("sentiment")
        assert doubt is None or doubt["margin"] < 0.2 or doubt["rules"] != doubt["model"]
    assert "sentiment" not in judged_by(both, "balo quá tệ").uncertain


def test_the_only_aspect_of_an_overruled_post_follows_it(path: Path) -> None:
    draft = judged_by(adopted(path), "pin lấy về kê chân bàn")
    assert draft.aspects == ["battery"]
    assert (draft.sentiment, draft.aspect_sentiments["battery"]["label"]) == ("negative", "negative")


def test_a_text_gets_the_same_answer_in_whatever_batch_it_is(path: Path) -> None:
    texts = ["", *(post.text for post in REVIEWS[:50]), "a", REVIEWS[50].text * 40]
    together = read(path).logits(texts)
    alone = [read(path).logits([text])[0] for text in texts]
    assert (together == numpy.array(alone)).all()


def test_another_model_is_another_version(path: Path, tmp_path: Path) -> None:
    other = model_file(tmp_path / "other.model", REVIEWS[:100], modules())
    versions = {adopted(path).model_version, adopted(other).model_version, pipeline().model_version}
    assert len(versions) == 3


def test_the_same_labels_in_any_order_make_the_same_file(path: Path, tmp_path: Path) -> None:
    again = model_file(tmp_path / "again.model", [*reversed(REVIEWS[:200])], modules())
    assert again.read_bytes() == path.read_bytes()


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    made = learned(REVIEWS[:60], modules()).model
    kept = write(tmp_path / "m", made)
    found = read(tmp_path / "m")
    assert (found.labels, found.hashing, found.trained_on) == (made.labels, made.hashing, made.trained_on)
    assert found.digest == kept.digest != ""
    assert (found.weights == made.weights).all()
    assert (found.bias == made.bias).all()
    assert sum(found.trained_on.values()) == 60


@pytest.mark.parametrize("place", [len(MAGIC) + 30, -1, 5_000])
def test_a_damaged_file_is_refused(path: Path, tmp_path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    broken = tmp_path / "broken.model"
    broken.write_bytes(content)
    with pytest.raises(CallerError, match=r"SMAP_MODELS: .*broken\.model is damaged"):
        adopted(broken)


def test_a_file_that_was_cut_off_is_refused(path: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.model"
    for size in (len(MAGIC), len(MAGIC) + 10, 3_000):
        broken.write_bytes(path.read_bytes()[:size])
        with pytest.raises(CallerError, match="is damaged"):
            adopted(broken)


def test_what_is_no_model_or_of_another_version_is_refused_with_the_way_out(path: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.model"
    wrong.write_bytes(b"PK\x03\x04")
    with pytest.raises(CallerError, match="is no model of smap"):
        adopted(wrong)
    line, _, body = path.read_bytes()[len(MAGIC) :].partition(b"\n")
    wrong.write_bytes(MAGIC + json.dumps({**json.loads(line), "format": 2}).encode() + b"\n" + body)
    with pytest.raises(CallerError, match=r"version 2\.1; this headrace reads 1\.1") as refused:
        adopted(wrong)
    assert "train" in refused.value.hint
    with pytest.raises(CallerError, match="cannot be read"):
        adopted(tmp_path / "nowhere")


def test_a_model_that_cannot_be_meant_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="two models of sentiment"):
        adopted(path, path)
    with pytest.raises(CallerError, match="SMAP_MODULES leaves out"):
        pipeline(("prepare",), ModuleOptions(models=(str(path),)))
    both = ModuleOptions(models=(str(path),), sentiment_model=onnx_written(tmp_path))
    with pytest.raises(CallerError, match="two models of sentiment"):
        pipeline(options=both)
    foreign = replace(read(path), labels=("angry", "calm", "glad"))
    write(tmp_path / "foreign.model", foreign)
    with pytest.raises(CallerError, match="labels that no module gives: angry"):
        adopted(tmp_path / "foreign.model")
    write(tmp_path / "foreign.model", replace(foreign, module="aspects", labels=("battery", "price", "smell")))
    with pytest.raises(CallerError, match="labels that no module gives: smell") as refused:
        adopted(tmp_path / "foreign.model")
    assert "SMAP_ASPECTS" in refused.value.hint
    (tmp_path / "aspects.txt").write_text("smell: mùi hôi\n", "utf-8")
    told = {"SMAP_MODELS": str(tmp_path / "foreign.model"), "SMAP_ASPECTS": str(tmp_path / "aspects.txt")}
    assert pipeline(options=ModuleOptions.read(told)).modules
    write(tmp_path / "foreign.model", replace(foreign, module="spam"))
    with pytest.raises(CallerError, match="labels that no module gives"):
        adopted(tmp_path / "foreign.model")


def test_a_text_typed_without_marks_shares_its_words() -> None:
    def buckets(text: str) -> set[int]:
        grams = ngrams([text], Hashing())
        return set(grams.buckets[grams.values > 0].tolist())

    assert len(buckets("đáng từng xu") & buckets("dang tung xu")) >= 3
    assert not buckets("a") & buckets("b")
    assert not buckets("")


def test_rules_decide_where_the_model_knows_nothing_and_lose_where_it_is_sure() -> None:
    answers = judged(("a", "b"), numpy.array([[0.0, 0.0], [3.0, 0.0], [1.0, 0.0]]), ["b", "b", "a"])
    assert [answer.label for answer in answers] == ["b", "a", "a"]
    assert answers[0].margin < answers[2].margin
    (many,) = judged_many(("a", "b"), numpy.array([[-3.0, 2.0]]), [("a", "c")])
    assert many.labels == {"a", "b", "c"}


def test_intents_and_aspects_are_learned_too(tmp_path: Path) -> None:
    asked = [LabelledText(f"{post.text} số {n}", frozenset(("purchase",))) for n, post in enumerate(REVIEWS[:40])]
    told = [LabelledText(f"{post.text} tin {n}", frozenset(("news",))) for n, post in enumerate(REVIEWS[40:80])]
    intent = write(tmp_path / "i", train([*asked, *told], "intent", modules()).model)
    assert intent.labels == ("news", "purchase")
    assert judged_by(adopted(tmp_path / "i"), "đôi dép số 7").intent == "purchase"
    about = [LabelledText(f"{post.text} chống gù {n}", frozenset(("comfort",))) for n, post in enumerate(REVIEWS[:40])]
    none = [LabelledText(post.text, frozenset()) for post in REVIEWS[80:160]]
    found = train([*about, *none, LabelledText("x", frozenset(("sound",)))], "aspects", modules())
    assert (found.model.labels, found.left_out) == (("comfort",), ("sound",))
    write(tmp_path / "a", found.model)
    draft = judged_by(adopted(tmp_path / "a"), "Mua hôm qua. Balo chống gù, quá tệ.")
    assert draft.aspects == ["comfort"]
    assert draft.aspect_sentiments["comfort"]["label"] == "negative"
    assert draft.uncertain["aspects"] == {
        "rules": "none",
        "model": "comfort",
        "margin": draft.uncertain["aspects"]["margin"],
    }


def test_a_post_that_breaks_the_rules_ends_alone_also_beside_a_model(path: Path) -> None:
    both = adopted(path)
    drafts = [Draft.of(draft.post, AnalysisContext(NOW)) for draft in drafts_of(modules(), REVIEWS[:3])]
    drafts[1].hashtags = None  # type: ignore[assignment]
    learned_module = Pipeline([both.modules[3]])
    for draft in drafts:
        draft.sentences = judged_by(modules(), draft.post.text).sentences
    faults = learned_module.run(drafts)
    assert [fault is None for fault in faults] == [True, False, True]


def test_a_model_knows_what_it_was_trained_for() -> None:
    model: LinearModel = learned([Review(post.text, post.sentiment) for post in REVIEWS[:60]], modules()).model
    assert model.module == "sentiment"
    assert set(model.labels) == set(SENTIMENTS)
