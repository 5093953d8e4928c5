"""Results as files that other programs read, in bounded memory, and that do nothing when they are opened."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Any

import openpyxl
import pyarrow.parquet
import pytest
from smap_office import START, Office, open_office

from headrace_smap.project.export import FORMS, NAMES, ROOM
from headrace_smap.project.workbook import Workbook
from headrace_smap.settings import SmapSettings

HOSTILE = ['=HYPERLINK("http://evil")', "+1", "-1", "@SUM(A1)", "\t=1", "plain", "dòng\nhai", 'a "b", c', "đ\x01ẹp"]


@pytest.fixture
async def office(embedded: SmapSettings) -> AsyncIterator[Office]:
    async with open_office(embedded) as office:
        yield office


async def exported(office: Office, project: str, form: str) -> bytes:
    answer = await office.client.get(f"/projects/{project}/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == f'attachment; filename="{project}.{form}"'
    return answer.content


async def hostile(office: Office) -> str:
    project = await office.make()
    for number, text in enumerate(HOSTILE):
        await office.analyse(project, [f"raw/{number}.json"], text=text, is_spam=number % 2 == 1)
    return project


async def test_csv_is_read_by_other_programs(office: Office) -> None:
    project = await hostile(office)
    content = await exported(office, project, "csv")
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert tuple(rows[0]) == NAMES
    assert [row["minio_path"] for row in rows] == [f"raw/{number}.json" for number in range(len(HOSTILE))]
    assert [row["text"] for row in rows] == [f"'{text}" if text[0] in "=+-@\t" else text for text in HOSTILE]
    assert (rows[0]["author_name"], rows[0]["published_at"], rows[0]["comments"]) == (
        "Nguyễn",
        "2025-03-01T12:00:00Z",
        "",
    )
    assert json.loads(rows[0]["aspect_sentiments"]) == {"design": {"label": "positive"}}


async def test_what_is_unknown_is_empty_in_every_form(office: Office) -> None:
    project = await office.make()
    unknown = ("likes", "reach", "engagement", "engagement_rate", "impact")
    await office.analyse(project, ["raw/1.json"], **dict.fromkeys(unknown), missing=["likes"], simulated=True)
    (row,) = csv.DictReader(io.StringIO((await exported(office, project, "csv")).decode("utf-8-sig"), newline=""))
    assert [row[name] for name in (*unknown, "missing", "simulated")] == ["", "", "", "", "", '["likes"]', "True"]
    sheet = openpyxl.load_workbook(io.BytesIO(await exported(office, project, "xlsx"))).worksheets[0]
    cells = dict(zip(NAMES, next(sheet.iter_rows(min_row=2, values_only=True)), strict=True))
    assert [cells[name] for name in (*unknown, "simulated")] == [None, None, None, None, None, True]
    (kept,) = pyarrow.parquet.read_table(io.BytesIO(await exported(office, project, "parquet"))).to_pylist()
    assert [kept[name] for name in (*unknown, "simulated")] == [None, None, None, None, None, True]


async def test_xlsx_is_read_by_other_programs(office: Office) -> None:
    project = await hostile(office)
    book = openpyxl.load_workbook(io.BytesIO(await exported(office, project, "xlsx")))
    (names, *rows) = book.worksheets[0].iter_rows()
    assert tuple(cell.value for cell in names) == NAMES
    cells: list[dict[str, Any]] = [dict(zip(NAMES, row, strict=True)) for row in rows]
    assert [row["text"].value for row in cells] == [text.replace("\x01", "") for text in HOSTILE]
    assert {row["text"].data_type for row in cells} == {"s"}
    assert cells[0]["published_at"].value == datetime(2025, 3, 1, 19), "what clocks show in Vietnam"
    assert cells[0]["timezone"].value == "Asia/Ho_Chi_Minh"
    assert (cells[0]["likes"].value, cells[1]["is_spam"].value) == (1, True)


async def test_parquet_keeps_the_types(office: Office) -> None:
    project = await hostile(office)
    table = pyarrow.parquet.read_table(io.BytesIO(await exported(office, project, "parquet")))
    rows = table.to_pylist()
    assert tuple(table.column_names) == NAMES
    assert [row["text"] for row in rows] == HOSTILE
    assert (rows[0]["published_at"], rows[0]["day"]) == (START, date(2025, 3, 1))
    assert (rows[0]["impact"], rows[0]["comments"], rows[1]["is_spam"]) == (12.5, None, True)
    assert rows[0]["analyzed_at"].tzinfo is not None
    assert rows[0]["analyzed_at"] == datetime(2025, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("form", sorted(FORMS))
async def test_a_project_without_results_is_an_empty_table(form: str, office: Office) -> None:
    project = await office.make()
    content = await exported(office, project, form)
    if form == "csv":
        assert content.decode("utf-8-sig").strip() == ",".join(NAMES)
    elif form == "xlsx":
        assert openpyxl.load_workbook(io.BytesIO(content)).worksheets[0].max_row == 1
    else:
        assert pyarrow.parquet.read_table(io.BytesIO(content)).num_rows == 0


@pytest.mark.parametrize("form", ["pdf", "", "csv/../x"])
async def test_another_form_is_refused(form: str, office: Office) -> None:
    project = await office.make()
    answer = await office.client.get(f"/projects/{project}/export", params={"format": form})
    assert (answer.status_code, "csv, xlsx, parquet" in answer.text) == (400, True)


@pytest.mark.parametrize("form", ["CSV", "Xlsx", "PARQUET"])
async def test_a_form_is_known_however_it_is_typed(form: str, office: Office) -> None:
    project = await office.make()
    answer = await office.client.get(f"/projects/{project}/export", params={"format": form})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == f'attachment; filename="{project}.{form.lower()}"'


async def peak_of(office: Office, project: str, form: str) -> int:
    tracemalloc.start()
    try:
        async for _ in FORMS[form].pieces(office.parts.database, project):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_rows(office: Office) -> None:
    small, large = await office.make(), await office.make()
    for project, pages in ((small, 1), (large, 3)):
        for page in range(pages):
            paths = [f"raw/{page}-{number}.json" for number in range(ROOM)]
            await office.analyse(project, paths, text="x" * 1_000)
    for form in FORMS:
        await peak_of(office, small, form)
        assert await peak_of(office, large, form) < 2 * await peak_of(office, small, form), form


def test_a_sheet_that_is_full_is_followed_by_another() -> None:
    file = io.BytesIO()
    book = Workbook(file, ("name", "number"), rows_max=3)
    for number in range(4):
        book.add([("x", number), ("y", -0.5)])
    book.close()
    sheets = openpyxl.load_workbook(file).worksheets
    assert [sheet.max_row - 1 for sheet in sheets] == [3, 3, 2]
    rows = [row for sheet in sheets for row in sheet.iter_rows(min_row=2, values_only=True)]
    assert rows == [row for number in range(4) for row in (("x", number), ("y", -0.5))]


def test_days_that_a_spreadsheet_cannot_count_are_texts() -> None:
    file = io.BytesIO()
    book = Workbook(file, ("time", "day"))
    last, first = datetime(1900, 2, 28, 23, 59, 59, tzinfo=UTC), datetime(1900, 3, 1, tzinfo=UTC)
    book.add([(datetime(1, 1, 1, tzinfo=UTC), date(1, 1, 1)), (last, last.date()), (first, first.date())])
    book.close()
    rows = list(openpyxl.load_workbook(file).worksheets[0].iter_rows(min_row=2, values_only=True))
    assert rows == [
        ("0001-01-01 00:00:00", "0001-01-01"),
        ("1900-02-28 23:59:59", "1900-02-28"),
        (datetime(1900, 3, 1), datetime(1900, 3, 1)),
    ]
