"""How a text is meant, in Vietnamese with and without marks, in slang, in English, and per aspect."""

from __future__ import annotations

import pytest
from smap_module_drafting import analysed

GOOD, BAD, NEITHER = "positive", "negative", "neutral"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Xe đẹp", GOOD),
        ("Xe không đẹp", BAD),
        ("Xe chẳng đẹp chút nào", BAD),
        ("Xe chả đẹp gì", BAD),
        ("Xe đâu có đẹp", BAD),
        ("Xe đẹp gì đâu", BAD),
        ("Xe này chưa được đẹp", BAD),
        ("Xe không tệ", GOOD),
        ("Mình không hề thất vọng", GOOD),
        ("ko đẹp", BAD),
        ("xe khong dep", BAD),
        ("xe dep qua", GOOD),
        ("App lỗi hoài", BAD),
        ("Xe có đẹp không?", NEITHER),
        ("Đẹp nhưng quá đắt, thất vọng", BAD),
        ("Hơi đắt nhưng rất đáng tiền", GOOD),
        ("Tuy hơi chậm, máy dùng rất thích", GOOD),
        ("Xe đẹp kinh khủng", GOOD),
        ("Dịch vụ kinh khủng", BAD),
        ("Tôi ở Hà Nội", NEITHER),
        ("Vui lòng gửi lại tin nhắn", NEITHER),
        ("Yêu cầu cung cấp thông tin", NEITHER),
        ("😍", GOOD),
        ("😡", BAD),
        ("The car is great", GOOD),
        ("The car is not great", BAD),
        ("It keeps crashing, what a waste of money", BAD),
        ("I loooove it", GOOD),
        ("Love nó quá, so beautiful luôn á mọi người", GOOD),
        ("", NEITHER),
        ("Эта машина хорошая", NEITHER),
    ],
)
def test_a_text_is_meant(text: str, label: str) -> None:
    assert analysed(text).sentiment == label


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ("xe đẹp", "xe rất đẹp"),
        ("xe đẹp", "xe đẹp lắm luôn"),
        ("xe hơi đẹp", "xe đẹp"),
        ("xe rất đẹp", "xe cực kỳ đẹp"),
        ("xe đẹp", "xe đẹp 😍"),
        ("xe đẹp", "xe đẹp!"),
        ("xe dep", "xe rat dep"),
    ],
)
def test_words_around_a_judgement_change_its_strength(weaker: str, stronger: str) -> None:
    assert 0 < analysed(weaker).sentiment_score < analysed(stronger).sentiment_score


def test_each_aspect_has_a_sentiment_of_its_own() -> None:
    draft = analysed("Thiết kế rất đẹp nhưng pin quá yếu, còn giá thì hợp lý 😍")
    assert {aspect: said["label"] for aspect, said in draft.aspect_sentiments.items()} == {
        "design": GOOD,
        "battery": BAD,
        "price": GOOD,
    }


def test_aspects_of_english_sentences_are_judged_by_clause() -> None:
    draft = analysed("The design is beautiful, but the battery is terrible")
    assert {aspect: said["label"] for aspect, said in draft.aspect_sentiments.items()} == {
        "design": GOOD,
        "battery": BAD,
    }


def test_an_aspect_that_is_only_named_is_neutral() -> None:
    assert analysed("Mình đang xem màn hình").aspect_sentiments == {"screen": {"label": NEITHER, "score": 0.0}}


def test_whoever_asks_for_help_is_not_yet_angry() -> None:
    asking = analysed("Máy bị lỗi, nhờ shop hỗ trợ giúp mình cách khắc phục")
    assert asking.intent == "support"
    assert analysed("Máy bị lỗi").sentiment_score < asking.sentiment_score <= 0


def test_a_score_is_never_out_of_its_range() -> None:
    assert -1 <= analysed("tệ quá thất vọng lừa đảo " * 150).sentiment_score < -0.99


def test_a_score_near_the_border_between_two_labels_is_uncertain() -> None:
    near = analysed("hơi chậm")
    assert near.uncertain["sentiment"]["rules"] == near.sentiment
    assert near.uncertain["sentiment"]["margin"] < 0.1
    assert "sentiment" not in analysed("quá tệ, thất vọng").uncertain
