"""The demo from its command to its page: its comparison with the truth, its network, its receipt."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, chromium_path

from headrace.testing import FtpServer
from headrace_pm.demo.comparison import SinkComparison, SinkRow, compared, sink_row
from headrace_pm.demo.network_site import DONE, FIRST, LATER, PATH, NetworkSite
from headrace_pm.demo.receipt import CounterReceipt
from headrace_pm.network.generated_folder import BAD, INCOMPLETE, ROWS, UNKNOWN, FolderPlan
from headrace_pm.network.truth import CounterKey, TrueRow

EQUAL = SinkComparison(30, 0, 0, 0)
RIGHT = CounterReceipt(
    files=12,
    uploads=14,
    done_wanted=10,
    done=10,
    refused_wanted=2,
    refused=2,
    archived_wanted=11,
    archived=11,
    half_uploads=1,
    early_rows=0,
    rows_wanted=30,
    table=EQUAL,
    parquet=EQUAL,
    killed=1,
    held_when_killed=2,
    logins=9,
    fetched=15,
    seconds=1.0,
    page="",
)
MS = 1_767_225_600_000
TRUE = {
    (row := TrueRow(1_000, MS, 900, counter, 1.5, "G", "5G", 7, "ff" * 8, {"a": "b"}, "f.dat", 1, 0)).key: row
    for counter in (1, 2, 3)
}


# What runs into its neighbours.
OVERLAPPING = """[...document.querySelectorAll('tbody td')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.textContent)"""


def test_every_counter_is_in_both_sinks_once_through_a_kill(headrace_command: Any, tmp_path: Path) -> None:
    place = tmp_path / "demo"
    size = ("--files", "24", "--counters", "2000")
    done = headrace_command("pm", "demo", *size, "--headless", "--json", "--to", str(place))
    assert done.returncode == 0, done.stderr
    receipt = json.loads(done.stdout)
    assert (receipt["files"], receipt["uploads"]) == (24, 28)
    assert (receipt["done"], receipt["refused"], receipt["archived"]) == (20, 4, 22)
    wanted = {"rows": receipt["rows_wanted"], "missing": 0, "extra": 0, "different": 0}
    assert receipt["table"] == receipt["parquet"] == wanted
    assert wanted["rows"] > 25_000
    assert (receipt["killed"], receipt["early_rows"]) == (1, 0)
    assert receipt["held_when_killed"] >= 1
    again = headrace_command("pm", "demo", "--headless", "--to", str(place))
    assert (again.returncode, "is not empty" in again.stderr) == (4, True)
    with Browser(chromium_path(), tmp_path / "profile", Path(receipt["page"]).as_uri()) as browser:
        for width, scheme in ((1_440, "light"), (1_440, "dark"), (390, "light"), (390, "dark")):
            browser.narrow(width)
            browser.prefer(scheme)
            assert browser.run("document.documentElement.scrollWidth") == width
            assert browser.run(OVERLAPPING) == []
            assert browser.violations() == []
        assert "are in both sinks, each once" in browser.run("document.querySelector('.headline').textContent")
        assert browser.said == []


def found(counter: int, value: float | None = 1.5, extra: str = '{"a":"b"}') -> SinkRow:
    return sink_row(1_000, MS, 900, counter, "5G", -1, value, "G", 7, extra)


def test_a_sink_is_compared_row_for_row() -> None:
    rows = [found(counter) for counter in (1, 2, 3)]
    assert compared(rows, TRUE) == SinkComparison(3, 0, 0, 0)
    assert compared(rows[:2], TRUE) == SinkComparison(2, 1, 0, 0)
    assert compared([*rows, rows[0]], TRUE) == SinkComparison(4, 0, 1, 0)
    assert compared([*rows, found(4)], TRUE) == SinkComparison(4, 0, 1, 0)
    assert compared([*rows[:2], found(3, None)], TRUE) == SinkComparison(3, 0, 0, 1)
    assert compared([*rows[:2], found(3, extra='{"a":"c"}')], TRUE) == SinkComparison(3, 0, 0, 1)
    # What comes from a file in two tables has the same key, however they write moments and hashes.
    for moment in ("2026-01-01 00:00:00.000", "2026-01-01T00:00:00+00:00", MS):
        assert sink_row(1, moment, 900, 2, "", 255, None, "G", 0, "{}").key == CounterKey(
            1, MS, 900, 2, "", f"{255:016x}"
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("done", 9),
        ("refused", 1),
        ("archived", 10),
        ("early_rows", 1),
        ("rows_wanted", 31),
        ("table", SinkComparison(30, 1, 1, 0)),
        ("parquet", SinkComparison(30, 0, 0, 1)),
        ("killed", 0),
        ("held_when_killed", 0),
    ],
)
def test_a_receipt_that_is_not_right_says_so(name: str, value: object) -> None:
    assert (RIGHT.right, RIGHT.sentence) == (True, "every counter is in both sinks, once")
    wrong = replace(RIGHT, **{name: value})
    assert (wrong.right, wrong.sentence) == (False, "the sinks are not right")
    assert len(wrong.rows) == len(RIGHT.rows)


def test_the_network_uploads_by_ftp_and_knows_what_must_be_archived(tmp_path: Path) -> None:
    plan = FolderPlan(12, 200, packed=2, half=2, corrupt=1, unknown=1, again=2)
    with FtpServer() as server:
        site = NetworkSite(plan, tmp_path, server)
        site.upload(site.names, FIRST)
        folder = server.files / PATH.strip("/")
        assert {path.name for path in folder.iterdir()} == set(site.names)
        assert [len(site.named(each)) for each in (ROWS, INCOMPLETE, BAD, UNKNOWN)] == [8, 2, 1, 1]
        assert set(site.named(INCOMPLETE)) < set(site.later)
        assert [each.error[:10] for each in site.planned() if each.error] == ["Unknown NE"]
        assert site.archived() == (8, 0)
        (folder / DONE).mkdir(parents=True)
        for name in site.named(ROWS):
            (folder / name).rename(folder / DONE / name)
        assert site.archived() == (8, 8)
        site.upload(site.later, LATER)
        assert site.archived() == (12, 8)
        # A content that nobody uploaded does not stand for one that is missing.
        (folder / DONE / "stray").write_bytes(b"stray")
        assert site.archived() == (12, 7)
        assert server.login_count() == 2
        assert (site.tables("env:X") / "ftp_server.csv").read_text().endswith(",rig,env:X\n")
    truth = site.truth()
    assert {row.revision for row in truth.values()} == {1, 2}
