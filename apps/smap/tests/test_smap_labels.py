"""Labels of people become a model, and whatever is wrong with their file is told with its line."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from smap_module_drafting import modules
from smap_office import result
from smap_reviews import reviews

from headrace.errors import CallerError
from headrace_smap.analytics.trainer.label_export import COLUMNS, LabelChoice, candidates, write_labels
from headrace_smap.analytics.trainer.label_file import LabelColumns, LabelRows, labels_in
from headrace_smap.analytics.trainer.trainer import train
from headrace_smap.analytics.work import COLUMNS as ROW
from headrace_smap.database import Database, open_database
from headrace_smap.settings import SmapSettings

Command = Callable[..., "subprocess.CompletedProcess[str]"]
Running = Callable[..., tuple[int, Any, str]]
REVIEWS = reviews(900, seed=3)


def labels(
    path: Path, content: str | bytes, module: str = "sentiment", columns: LabelColumns | None = None
) -> LabelRows:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return labels_in([path], module, columns or LabelColumns(), ("battery", "price"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "labels.csv"


def test_labels_are_read_as_spreadsheets_write_them(file: Path) -> None:
    for content in (
        b'\xef\xbb\xbftext,label\r\n"t\xe1\xbb\x91t, nha",Positive\r\nk\xc3\xa9m, negative \r\n',
        "text;label\ntốt, nha;positive\nkém;negative\n".encode(),
        "id\tlabel\ttext\n1\tpositive\ttốt, nha\n2\tnegative\tkém\n".encode(),
    ):
        rows = labels(file, content)
        found = [(row.text, *row.labels) for row in rows.texts]
        assert found == [("tốt, nha", "positive"), ("kém", "negative")]


def test_rows_that_nobody_has_come_to_are_left_out_and_the_last_label_of_a_text_holds(
    file: Path, tmp_path: Path
) -> None:
    rows = labels(file, "text,label\na,positive\nb,\n\n,negative\na,negative\n")
    assert [(row.text, *row.labels) for row in rows.texts] == [("a", "negative")]
    assert (rows.unlabelled, rows.repeated) == (1, 1)
    later = tmp_path / "later.csv"
    later.write_text("text,label\na,neutral\n", "utf-8")
    assert labels_in([file, later], "sentiment", LabelColumns()).texts[0].labels == {"neutral"}


def test_aspects_are_several_or_none(file: Path) -> None:
    rows = labels(file, "text,label\na,battery; Price\nb,none\nc,\n", "aspects")
    assert [row.labels for row in rows.texts] == [{"battery", "price"}, frozenset()]
    with pytest.raises(CallerError, match="line 2: 'smell' is no label of aspects") as refused:
        labels(file, "text,label\na,smell\n", "aspects")
    assert "battery" in refused.value.hint


def test_labels_of_other_people_are_called_ours(file: Path) -> None:
    columns = LabelColumns.of("comment", "rate", "POS=positive, 0=negative")
    rows = labels(file, "rate,comment\npos,a\n0,b\n", columns=columns)
    assert [(row.text, *row.labels) for row in rows.texts] == [("a", "positive"), ("b", "negative")]
    with pytest.raises(CallerError, match="--map"):
        LabelColumns.of("a", "b", "0")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("text,label\na,positive\nb,angry\n", r"line 3: 'angry' is no label of sentiment"),
        ("text,sentiment\na,positive\n", r"line 1: there is no column 'label' among text, sentiment"),
        ("", r"line 1: there is no column 'text' among nothing"),
        ('text,label\n"a\nb",positive\nc\n', r"line 4: only 1 cells"),
        ('text,label\n"a,positive\n', r"line 2: unexpected end of data"),
        ("text,label\na,positive\nké".encode()[:-1], r"line 3: not UTF-8 at byte 23"),
        ("text,label\nđược,negative\n".encode("cp1258", "replace"), r"line 2: not UTF-8 at byte 11"),
        ("text,label\na,positive\n".encode("utf-16"), r"not UTF-8 but a wider encoding"),
        ("text,label\na,positive\n".encode("utf-16-le"), r"not UTF-8 but a wider encoding"),
        (b"PK\x03\x04 workbook", r"is a workbook or an archive"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_line(file: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(CallerError, match=said) as refused:
        labels(file, content)
    assert "labels.csv" in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match=r"nowhere\.csv cannot be read"):
        labels_in([tmp_path / "nowhere.csv"], "sentiment", LabelColumns())


def test_too_few_posts_of_a_label_are_refused_with_their_number(file: Path) -> None:
    few = "".join(f"tốt {n},positive\nkém {n},negative\n" for n in range(9)) + "a,neutral\n"
    with pytest.raises(CallerError, match="negative: 9, neutral: 1, positive: 9") as refused:
        train(labels(file, "text,label\n" + few).texts, "sentiment", modules())
    assert "10 are the least" in refused.value.hint
    one = "".join(f"tốt {n},positive\n" for n in range(20))
    with pytest.raises(CallerError, match="nothing to tell apart: only positive"):
        train(labels(file, "text,label\n" + one).texts, "sentiment", modules())


async def stored(database: Database) -> None:
    """Three projects' worth of answers: sure, unsure, about the same text twice, spam, another language."""
    doubt = {"sentiment": {"rules": "neutral", "model": "negative", "margin": 0.3}}
    near = {"sentiment": {"rules": "neutral", "model": "neutral", "margin": 0.01}}
    rows = [
        result("p", "a.json", text="sure"),
        result("p", "b.json", text="=doubted()", uncertain=doubt),
        result("p", "c.json", text="near", uncertain=near, aspects=["price", "battery"]),
        result("q", "a.json", text="near", uncertain=doubt),
        result("q", "b.json", text="spam", uncertain=near, is_spam=True),
        result("q", "c.json", text="autre", uncertain=near, language="other"),
        result("q", "d.json", text="intent only", uncertain={"intent": {"rules": "news", "margin": 0.0}}),
    ]
    await database.rows(
        "upsert_post_analytics", rows=[[row.get(name) for name in ROW] for row in rows], projects=("none of these",)
    )


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
async def test_the_most_uncertain_posts_are_given_first_and_each_text_once(
    request: pytest.FixtureRequest, embedded: SmapSettings, dialect: str, file: Path
) -> None:
    if dialect == "postgres":
        embedded = replace(embedded, pg_dsn=request.getfixturevalue("smap_database"))
    embedded.home.mkdir()
    async with open_database(embedded.engine_url) as database:
        await stored(database)
        found = await candidates(database, LabelChoice("sentiment", uncertain=True))
        assert [one.text for one in found] == ["near", "=doubted()"]
        assert [one.text for one in await candidates(database, LabelChoice("sentiment", ("q",), True))] == ["near"]
        assert len(await candidates(database, LabelChoice("sentiment", uncertain=True, posts_max=1))) == 1
        everything = await candidates(database, LabelChoice("aspects"))
        assert {one.text: one.answer for one in everything}["near"] == "battery;price"
        assert len(everything) == 4
    write_labels(file, found)
    with file.open(encoding="utf-8-sig", newline="") as written:
        told = list(csv.DictReader(written))
    assert tuple(told[0]) == COLUMNS
    assert [(row["text"], row["rules"], row["model"], row["label"]) for row in told] == [
        ("near", "neutral", "neutral", ""),
        ("'=doubted()", "neutral", "negative", ""),
    ]
    with pytest.raises(CallerError, match="exists, and labels may be in it"):
        write_labels(file, found)
    file.write_text(file.read_text("utf-8-sig").replace(",0.3,", ",0.3,negative"), "utf-8")
    assert [(row.text, *row.labels) for row in labels_in([file], "sentiment", LabelColumns()).texts] == [
        ("=doubted()", "negative")
    ]
