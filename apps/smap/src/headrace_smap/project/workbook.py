"""An XLSX file written row by row: a zip of a few small documents and one large one per sheet.

The usual library builds an object per cell and manages some hundred rows a second; a table of results needs a hundred
times that, and nothing but texts, numbers and times. Texts stand in their cells as texts: none is ever a formula.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from datetime import date, datetime
from typing import IO, Any
from xml.sax.saxutils import escape

SHEET_ROWS_MAX = 1_000_000
CELL_CHARS_MAX = 32_767
_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EPOCH, _FIRST = datetime(1899, 12, 30), datetime(1900, 3, 1)
"""Days are counted from the one, and are right from the other on: spreadsheets know a 29 February 1900, which never
was, and nothing before 1900."""
_SPACE = "http://schemas.openxmlformats.org"
_MAIN = f"{_SPACE}/spreadsheetml/2006/main"
_TYPES = f"{_SPACE}/officeDocument/2006/relationships"
_KINDS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_TIME, _DAY = 1, 2
_FILLS = "".join(f'<fill><patternFill patternType="{kind}"/></fill>' for kind in ("none", "gray125"))
_STYLES = (
    f'<styleSheet xmlns="{_MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd\\ hh:mm:ss"/>'
    '</numFmts><fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>'
    f'<fills count="2">{_FILLS}</fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="3">'
    '<xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/>'
    '<xf numFmtId="164" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    '<xf numFmtId="14" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>'
)


class Workbook:
    """Rows of one table, on as many sheets as they need, each under the same names."""

    def __init__(self, file: IO[bytes], names: Sequence[str], rows_max: int = SHEET_ROWS_MAX) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=3)
        self._names, self._rows_max = tuple(names), rows_max
        self._sheets, self._rows = 0, 0
        self._begin()

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        """Write rows below those that are there."""
        rest = list(rows)
        while rest:
            if self._rows == self._rows_max:
                self._end()
                self._begin()
            part, rest = rest[: self._rows_max - self._rows], rest[self._rows_max - self._rows :]
            self._sheet.write("".join(map(_row, part)).encode())
            self._rows += len(part)

    def close(self) -> None:
        """Write what holds the sheets together; before that it is no file."""
        self._end()
        numbers = range(1, self._sheets + 1)
        sheets = "".join(f'<sheet name="posts {n}" sheetId="{n}" r:id="r{n}"/>' for n in numbers)
        self._put(
            "xl/workbook.xml", f'<workbook xmlns="{_MAIN}" xmlns:r="{_TYPES}"><sheets>{sheets}</sheets></workbook>'
        )
        self._put("xl/styles.xml", _STYLES)
        parts = {f"r{n}": ("worksheet", f"worksheets/sheet{n}.xml") for n in numbers}
        self._put("xl/_rels/workbook.xml.rels", _relations({**parts, "styles": ("styles", "styles.xml")}))
        self._put("_rels/.rels", _relations({"book": ("officeDocument", "xl/workbook.xml")}))
        overrides = [f"worksheets/sheet{n}.xml" for n in numbers]
        self._put("[Content_Types].xml", _content_types(overrides))
        self._zip.close()

    def _begin(self) -> None:
        self._sheets, self._rows = self._sheets + 1, 0
        self._sheet = self._zip.open(f"xl/worksheets/sheet{self._sheets}.xml", "w", force_zip64=True)
        pane = '<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/>'
        views = f'<sheetViews><sheetView workbookViewId="0">{pane}</sheetView></sheetViews>'
        self._sheet.write(f'{_HEAD}<worksheet xmlns="{_MAIN}">{views}<sheetData>{_row(self._names)}'.encode())

    def _end(self) -> None:
        self._sheet.write(b"</sheetData></worksheet>")
        self._sheet.close()

    def _put(self, name: str, text: str) -> None:
        self._zip.writestr(name, _HEAD + text)


def _row(values: Sequence[Any]) -> str:
    return f"<row>{''.join(map(_cell, values))}</row>"


def _cell(value: Any) -> str:
    match value:
        case None:
            return "<c/>"
        case bool():
            return f'<c t="b"><v>{value:d}</v></c>'
        case int() | float():
            return f"<c><v>{value!r}</v></c>"
        case datetime():
            # A spreadsheet has no time zones: it shows what the clock shows.
            time = value.replace(tzinfo=None)
            if time < _FIRST:
                return _text(time.isoformat(" ", "seconds"))
            return f'<c s="{_TIME}"><v>{(time - _EPOCH).total_seconds() / 86_400!r}</v></c>'
        case date():
            if value < _FIRST.date():
                return _text(value.isoformat())
            return f'<c s="{_DAY}"><v>{(value - _EPOCH.date()).days}</v></c>'
        case _:
            return _text(str(value))


def _text(text: str) -> str:
    written = escape(_UNWRITABLE.sub("", text)[:CELL_CHARS_MAX])
    return f'<c t="inlineStr"><is><t xml:space="preserve">{written}</t></is></c>'


def _relations(parts: dict[str, tuple[str, str]]) -> str:
    each = "".join(
        f'<Relationship Id="{name}" Type="{_TYPES}/{kind}" Target="{target}"/>'
        for name, (kind, target) in parts.items()
    )
    return f'<Relationships xmlns="{_SPACE}/package/2006/relationships">{each}</Relationships>'


def _content_types(sheets: Sequence[str]) -> str:
    kinds = {"workbook.xml": "sheet.main", "styles.xml": "styles", **dict.fromkeys(sheets, "worksheet")}
    each = "".join(
        f'<Override PartName="/xl/{name}" ContentType="{_KINDS}.{kind}+xml"/>' for name, kind in kinds.items()
    )
    relations = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    documents = '<Default Extension="xml" ContentType="application/xml"/>'
    return f'<Types xmlns="{_SPACE}/package/2006/content-types">{relations}{documents}{each}</Types>'
