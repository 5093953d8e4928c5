"""What the author wants, and what is spam, with the reasons."""

from __future__ import annotations

import pytest
from smap_module_drafting import analysed


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("Giá lăn bánh bao nhiêu vậy mọi người?", "question"),
        ("Anyone here tried this one?", "question"),
        ("Dịch vụ quá tệ, đòi hoàn tiền mãi không được", "complaint"),
        ("Terrible service, I want a refund", "complaint"),
        ("Tuyệt vời, cảm ơn shop rất nhiều", "praise"),
        ("Love it, highly recommend", "praise"),
        ("Mình muốn mua một chiếc, chốt luôn nha", "purchase"),
        ("I want to buy one, ready to order", "purchase"),
        ("So sánh VF5 với VF6 thì con nào hơn?", "comparison"),
        ("Much better than the old one", "comparison"),
        ("VinFast công bố doanh số quý 3, họp báo diễn ra sáng nay", "news"),
        ("Mình quên mật khẩu, làm sao để lấy lại ạ?", "support"),
        ("How do I reset my password?", "support"),
        ("Tôi ở Hà Nội", "other"),
        ("", "other"),
        ("😍", "other"),
    ],
)
def test_an_intent_is_recognised(text: str, intent: str) -> None:
    assert analysed(text).intent == intent


def test_an_intent_that_nothing_else_speaks_against_is_surer() -> None:
    sure = analysed("Mình muốn mua một chiếc")
    torn = analysed("Mình muốn mua một chiếc. So với con kia thì con nào tốt hơn? Tuyệt vời quá")
    assert 0 < torn.intent_score < sure.intent_score <= 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Vay tiền nhanh, chỉ cần CCCD, lh 0912 345 678", "loan"),
        ("vay tien nhanh chi can cccd lien he 0912345678", "loan"),
        ("Nổ hũ đổi thưởng, nhà cái uy tín", "gambling"),
        ("Tuyển cộng tác viên, việc nhẹ lương cao, ib ngay", "job"),
        ("Double your bitcoin, guaranteed profit", "crypto"),
        ("Giảm ngay 50%, inbox em báo giá, hotline 0901 234 567", "selling"),
        ("Tăng like tăng follow giá rẻ zalo 0901234567", "followers"),
        ("mua đi " * 20, "repeated"),
    ],
)
def test_spam_is_known_with_its_reason(text: str, reason: str) -> None:
    draft = analysed(text)
    assert draft.is_spam
    assert reason in draft.spam_reasons
    assert 0.5 < draft.spam_score <= 1


@pytest.mark.parametrize(
    "text",
    [
        "Số của mình là 0912 345 678, giao giờ hành chính nhé",
        "Bài này hay, mọi người đọc ở https://example.com/bai-viet nhé",
        "Xe đẹp, giá tốt, mình rất thích",
        "Vay mua xe thì lãi suất bao nhiêu vậy mọi người",
        "The price is good and delivery was free",
        "",
    ],
)
def test_an_opinion_with_a_number_or_a_link_is_no_spam(text: str) -> None:
    assert not analysed(text).is_spam


def test_an_intent_that_leads_by_little_is_uncertain() -> None:
    both = analysed("Giá bao nhiêu vậy shop? Mình muốn mua 1 chiếc")
    assert both.uncertain["intent"]["rules"] == both.intent
    assert both.uncertain["intent"]["margin"] < 0.1
    assert "intent" not in analysed("quá tệ, thất vọng").uncertain
