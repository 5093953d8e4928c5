"""Text becomes comparable: one spelling per word, and a language that is right."""

from __future__ import annotations

import unicodedata

import pytest
from smap_module_drafting import analysed, words

from headrace_smap.analytics.modules.text.normal_form import MARKS_MAX, cleaned


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("Đẹppppp", "đẹp"),
        ("ĐẸP", "đẹp"),
        (unicodedata.normalize("NFD", "đẹp"), "đẹp"),
        ("đẹpp", "đẹp"),
        ("hoà", "hòa"),
        ("thuỷ", "thủy"),
        ("loè", "lòe"),
        ("quý", "quý"),
        ("hoàn", "hoàn"),
        ("đ\u200bẹ\u200bp", "đẹp"),
        ("đ\u202eẹp", "đẹp"),
        ("<b>đẹp</b>", "đẹp"),
        ("&#273;&#7865;p", "đẹp"),
        ("𝗱𝗲𝗽", "dep"),
        ("ｄｅｐ", "dep"),
    ],
)
def test_a_word_has_one_spelling(written: str, one: str) -> None:
    assert words(written) == [one]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("xe này ko tốt", "xe này không tốt"),
        ("mình k thích", "mình không thích"),
        ("hok đẹp gì hết", "không đẹp gì hết"),
        ("đi đc rồi", "đi được rồi"),
        ("cái này là j z", "cái này là gì vậy"),
        ("giá 200 k nha", "giá 200 k nha"),
        ("giá 200k nha", "giá 200k nha"),
        ("cho mình đi vs bạn ơi", "cho mình đi với bạn ơi"),
        ("đi vs mình nha", "đi với mình nha"),
        ("xe vf5 vs vf6 nào đẹp", "xe vf5 vs vf6 nào đẹp"),
        ("mình ko bt luôn", "mình không biết luôn"),
        ("mình thấy bt thôi", "mình thấy bình thường thôi"),
        ("xe nay ko tot lam", "xe nay khong tot lam"),
    ],
)
def test_slang_is_written_out_where_it_is_slang(typed: str, meant: str) -> None:
    assert words(typed) == meant.split()


def test_slang_is_left_alone_in_english() -> None:
    assert words("This is the k value of r and v") == ["this", "is", "the", "k", "value", "of", "r", "and", "v"]


def test_a_picture_is_one_word_without_its_skin() -> None:
    assert words("tốt lắm 👍🏽 👨‍👩‍👧 ❤️") == ["tốt", "lắm", "👍", "👨‍👩‍👧", "❤"]
    assert analysed("👍🏽👍🏻❤️").emojis == ["👍", "❤"]


def test_smileys_are_words() -> None:
    assert words("tốt :) tệ :(( thế T_T xDDD <3 ^^ 10:30") == [
        "tốt",
        ":)",
        "tệ",
        ":((",
        "thế",
        "t_t",
        "xd",
        "<3",
        "^^",
        "10",
        "30",
    ]


def test_what_is_no_word_is_taken_out_and_kept() -> None:
    draft = analysed(
        "Xem https://example.com/lua-dao?a=1 @shop.abc #XeĐiện mua@example.com lh 0912 345 678, +84 901234567"
    )
    assert draft.urls == ["https://example.com/lua-dao?a=1"]
    assert draft.mentions == ["shop.abc"]
    assert draft.hashtags == ["XeĐiện"]
    assert draft.emails == ["mua@example.com"]
    assert draft.phones == ["0912345678", "84901234567"]
    assert "lua" not in [word for sentence in draft.sentences for word in sentence.words]


def test_an_amount_is_no_phone() -> None:
    assert analysed("giá 1.250.000 đồng, mã 20391, năm 2025").phones == []


def test_clean_text_is_what_people_see() -> None:
    assert analysed("Xe &amp; máy<br>\r\n\r\n  đẹp\u00a0lắm\u200b").text == "Xe & máy\nđẹp lắm"


def test_heaps_of_marks_are_cut_to_what_a_letter_can_carry() -> None:
    heaped = cleaned("q" + "\u0301" * 50)
    assert len(heaped) <= 1 + MARKS_MAX


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Xe này chạy rất êm", "vi"),
        ("xe nay chay rat em", "vi"),
        ("Giao hang cham qua, khong hai long", "vi"),
        ("xe ok ko mn", "vi"),
        ("This car drives really well", "en"),
        ("Great!", "en"),
        ("I visited Đà Nẵng and the beach there was wonderful", "en"),
        ("Xe đẹp quá trời luôn. I really love this new color so much", "mixed"),
        ("Este coche es muy bueno y no es caro", "other"),
        ("La voiture est très confortable", "other"),
        ("Barang bagus sekali terima kasih", "other"),
        ("この車はいいです", "other"),
        ("Машина хорошая", "other"),
        ("", "unknown"),
        ("12345 !!!", "unknown"),
        ("😍😍", "unknown"),
        ("https://example.com", "unknown"),
    ],
)
def test_the_language_is_recognised(text: str, language: str) -> None:
    assert analysed(text).language == language


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Xe này có bền không ạ shop ơi", True),
        ("xe nay co ben khong a", True),
        ("Giá bao nhiêu vậy", True),
        ("Is it worth the money", True),
        ("Xe này không bền", False),
        ("Mình không thích nó", False),
        ("It is worth the money", False),
    ],
)
def test_a_question_is_known_without_its_mark(text: str, asks: bool) -> None:
    assert analysed(text).sentences[0].question is asks
