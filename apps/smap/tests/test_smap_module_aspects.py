"""Keywords however people type them, aspects of a list that can grow, and phrases."""

from __future__ import annotations

from pathlib import Path

import pytest
from smap_module_drafting import NOW, analysed

from headrace.errors import CallerError
from headrace_smap.analytics.modules import AnalysisContext, ModuleOptions, pipeline


@pytest.mark.parametrize(
    "text",
    [
        "Mua xe điện đi",
        "MUA XE ĐIỆN ĐI",
        "mua xe dien di",
        "mua #XeĐiện đi",
        "mua #xedien đi",
        "mua #xe_dien đi",
        "mua #toiyeuxedien đi",
    ],
)
def test_a_keyword_is_found_however_it_is_typed(text: str) -> None:
    assert analysed(text, "Xe điện").keywords == ["Xe điện"]


def test_keywords_keep_the_spelling_and_order_of_the_project() -> None:
    assert analysed("vf3 của vinfast, vf3!", "VinFast", "VF3", "VF9").keywords == ["VinFast", "VF3"]


def test_a_keyword_within_a_longer_one_is_found_too() -> None:
    assert analysed("VinFast VF3 đẹp", "VinFast", "VinFast VF3", "VF3").keywords == ["VinFast", "VinFast VF3", "VF3"]


def test_a_number_may_stand_apart() -> None:
    assert analysed("xe VF 3 và xe vf-3", "VF3").keywords == ["VF3"]
    assert analysed("xe vf3", "VF 3").keywords == ["VF 3"]


def test_a_part_of_a_word_is_no_keyword() -> None:
    assert analysed("xe điện tử", "xe đạp").keywords == []
    assert analysed("vf35 ra mắt", "VF3").keywords == []


def test_a_short_word_needs_its_marks() -> None:
    assert analysed("mu này đẹp", "mũ").keywords == []
    assert analysed("mũ này đẹp", "mũ").keywords == ["mũ"]


def test_a_keyword_of_nothing_is_never_found() -> None:
    assert analysed("mua gì đó", "", "  ", "#", "!!!").keywords == []


@pytest.mark.parametrize(
    ("text", "aspects"),
    [
        ("Giá hơi cao", ["price"]),
        ("pin yếu, màn hình đẹp", ["battery", "design", "screen"]),
        ("nhan vien tu van nhiet tinh", ["service"]),
        ("The battery and the price", ["battery", "price"]),
        ("bàn giao nhà máy, giá trị lớn", []),
        ("Tôi ở Hà Nội", []),
    ],
)
def test_aspects_are_found_in_both_languages(text: str, aspects: list[str]) -> None:
    assert analysed(text).aspects == aspects


def test_a_file_adds_aspects_and_changes_the_version(tmp_path: Path) -> None:
    path = tmp_path / "aspects.txt"
    path.write_text("# của tôi\nwarranty: bảo hành, warranty\nsmell: mùi (thơm|hôi)\n", "utf-8")
    extended = pipeline(options=ModuleOptions(aspects_file=path))
    draft = extended.apply({"id": 1, "platform": "x", "text": "bảo hành tốt, mùi hôi, giá rẻ"}, AnalysisContext(NOW))
    assert draft.aspects == ["price", "smell", "warranty"]
    assert extended.model_version != pipeline().model_version


@pytest.mark.parametrize("text", ["không có dấu hai chấm", ": thiếu tên", "x: " + "a" * 2_000_000])
def test_a_file_that_cannot_work_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text, "utf-8")
    with pytest.raises(CallerError, match=r"mine\.txt"):
        pipeline(options=ModuleOptions(aspects_file=path))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match="SMAP_ASPECTS"):
        pipeline(options=ModuleOptions(aspects_file=tmp_path / "absent.txt"))


def test_phrases_are_what_is_between_small_words_and_judgements() -> None:
    phrases = analysed("Trạm sạc ở Vũng Tàu thì rất đẹp, trạm sạc cũng có ở Đà Lạt").phrases
    assert phrases[0] == "trạm sạc"
    assert "đà lạt" in phrases
    assert not any("đẹp" in phrase for phrase in phrases)
