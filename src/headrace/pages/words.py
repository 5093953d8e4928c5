"""The texts of a page in several languages: one table per language, the same keys and the same places in each.

    TEXTS = Texts(
        en={"late": "{count} symbol is late|{count} symbols are late"},
        vi={"late": "{count} mã bị trễ"},
    )
    words = TEXTS.of("vi")
    words("late", count=1_200)      # 1.200 mã bị trễ

A table that lacks a key or a place of another is refused when the module is loaded, not when a page is read. Numbers
and days are written as the language writes them. Where a text has two forms, the first is for a `count` of one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime
from string import Formatter

ENGLISH, VIETNAMESE = "en", "vi"
LANGUAGES = (ENGLISH, VIETNAMESE)
UNKNOWN = "–"
# What the kit itself says.
_OWN: dict[str, dict[str, str]] = {
    ENGLISH: {
        "pages.sections": "Sections",
        "pages.languages": "Languages",
        "pages.language": "English",
        "pages.all": "all",
        "pages.any": "Search in all columns",
        "pages.from": "{name} from",
        "pages.to": "{name} to",
        "pages.clear": "Clear filters",
        "pages.filter": "Filter: {name}",
        "pages.shown": "{shown} of {count} row|{shown} of {count} rows",
        "pages.none": "No row matches.",
        "pages.more": "Show {count} more",
        "pages.rest": "{count} more row|{count} more rows",
        "pages.continued": "{name}, continued",
        "pages.numbers": "Numbers of this chart",
        "pages.total": "Total",
        "pages.order": "Order",
        "pages.apply": "Apply",
        "pages.part": "{first} to {last} of {count} row|{first} to {last} of {count} rows",
        "pages.page": "Page {page} of {pages}",
        "pages.paging": "Pages: {name}",
        "pages.previous": "Previous",
        "pages.next": "Next",
        "pages.notes": "Notes",
    },
    VIETNAMESE: {
        "pages.sections": "Các phần",
        "pages.languages": "Ngôn ngữ",
        "pages.language": "Tiếng Việt",
        "pages.all": "tất cả",
        "pages.any": "Tìm trong mọi cột",
        "pages.from": "{name} từ",
        "pages.to": "{name} đến",
        "pages.clear": "Xóa bộ lọc",
        "pages.filter": "Lọc: {name}",
        "pages.shown": "{shown} trên {count} dòng",
        "pages.none": "Không có dòng nào phù hợp.",
        "pages.more": "Xem thêm {count}",
        "pages.rest": "Còn {count} dòng",
        "pages.continued": "{name}, tiếp theo",
        "pages.numbers": "Số liệu của biểu đồ",
        "pages.total": "Tổng",
        "pages.order": "Thứ tự",
        "pages.apply": "Lọc",
        "pages.part": "{first} đến {last} trên {count} dòng",
        "pages.page": "Trang {page} / {pages}",
        "pages.paging": "Trang: {name}",
        "pages.previous": "Trước",
        "pages.next": "Sau",
        "pages.notes": "Ghi chú",
    },
}


class Words:
    """The texts of one language: `words(key, …)` fills one in, the methods write numbers and days."""

    def __init__(self, language: str, table: Mapping[str, str]) -> None:
        self.language = language
        self._table = {**table, **_OWN[language]}

    def __call__(self, key: str, **values: object) -> str:
        """A text with its places filled. An unknown key is an error: a page never shows one."""
        forms = self._table[key].split("|")
        form = forms[0] if values.get("count") == 1 else forms[-1]
        return form.format(**{name: self.shown(value) for name, value in values.items()})

    def get(self, key: str, otherwise: str) -> str:
        """The text of a key that may be unknown: names of rules and states that come from elsewhere."""
        return self._table.get(key, otherwise)

    def template(self, key: str) -> str:
        """The last form with its places still in it, for a script to fill."""
        return self._table[key].split("|")[-1]

    def shown(self, value: object) -> str:
        """A value as this language writes it."""
        match value:
            case None:
                return UNKNOWN
            case bool():
                return str(value)
            case int():
                return self.number(value)
            case float():
                return self.number(value, 1)
            case datetime():
                return f"{self.day(value)} {value:%H:%M}"
            case date():
                return self.day(value)
        return str(value)

    def number(self, value: float | None, digits: int = 0) -> str:
        """Digits in groups of three. What rounds to zero has no sign."""
        if value is None or not math.isfinite(value):
            return UNKNOWN
        written = f"{round(value, digits) or 0:,.{digits}f}".replace("-", "−")
        return written if self.language != VIETNAMESE else written.translate({ord(","): ".", ord("."): ","})

    def percent(self, share: float | None, digits: int = 1) -> str:
        """Rounded, but only what is complete shows as 100 %."""
        if share is None:
            return UNKNOWN
        scale = 10**digits
        # A half that cannot be written in binary is one all the same.
        steps = math.floor(share * 100 * scale + 0.5 + 1e-9)
        if share < 1:
            steps = min(steps, 100 * scale - 1)
        return f"{self.number(steps / scale, digits)} %"

    def day(self, day: date) -> str:
        return f"{day:%d/%m/%Y}" if self.language == VIETNAMESE else f"{day:%Y-%m-%d}"


ENGLISH_WORDS = Words(ENGLISH, {})
"""For a page in English alone, whose texts stand where they are shown."""


class Texts:
    """The texts of an application: `Texts(en={…}, vi={…})`."""

    def __init__(self, **tables: Mapping[str, str]) -> None:
        if unknown := sorted(set(tables) - set(LANGUAGES)):
            raise ValueError(f"there are no words of the kit in {unknown}")
        first, *others = tables
        for other in others:
            _compare(first, tables[first], other, tables[other])
        self._words = {language: Words(language, table) for language, table in tables.items()}

    @property
    def languages(self) -> tuple[str, ...]:
        return tuple(self._words)

    def preferred(self, accepted: str) -> str:
        """Of what a browser accepts (`Accept-Language`) the first language that there are texts in."""
        tags = (part.split(";")[0].strip().lower()[:2] for part in accepted[:200].split(","))
        return next((tag for tag in tags if tag in self._words), self.languages[0])

    def of(self, language: str) -> Words:
        """The words of a language; of the first one if there are none in it."""
        return self._words.get(language) or next(iter(self._words.values()))


def _compare(first: str, known: Mapping[str, str], other: str, table: Mapping[str, str]) -> None:
    if different := sorted(set(known) ^ set(table)):
        raise ValueError(f"texts are in one of {first} and {other} only: {different}")
    for key, text in known.items():
        if places(text) != places(table[key]):
            raise ValueError(f"the text {key!r} has other places in {other} than in {first}")


def places(text: str) -> set[str]:
    """The names in braces."""
    return {name for form in text.split("|") for _, name, _, _ in Formatter().parse(form) if name}
