"""The report: its figures from real tables, and its page as a browser sees it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from browser import Browser, chromium_path
from pm_operator_world import counted, elements, operator_tables

from headrace.pages import save
from headrace.testing.rig.mariadb import MariaServer
from headrace_pm.operators.periods import PeriodSpan
from headrace_pm.report.error_groups import fault_of
from headrace_pm.report.pipeline_page import page
from headrace_pm.report.pipeline_report import FileLatency, PipelineReport, pipeline_report, step_for
from headrace_pm.report.words import TEXTS

DAY = datetime(2026, 1, 1, tzinfo=UTC)
END = DAY + timedelta(days=1)
FILES = Path(__file__).with_name("report_files.sql").read_text("utf-8")
# Of 100 files it is known when ClickHouse showed them: 40 s after they were listed.
SEEN = (
    "INSERT INTO pm_file_claim (file_id, revision)"
    " SELECT id, 1 FROM file_processing_state WHERE state = 'MOVED' LIMIT 100",
    "INSERT INTO pm_file_revision (file_id, revision, file_size, modified, seen_at)"
    " SELECT file_id, 1, 1, '', created_at FROM pm_file_claim JOIN file_processing_state ON id = file_id",
    "INSERT INTO pm_clickhouse_seen SELECT version, seen_at + INTERVAL 40 SECOND FROM pm_file_revision",
)
# Tables that are cut off at the right.
CUT = """[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth + 1)
    .map(each => each.getAttribute('aria-label'))"""


async def test_the_report_tells_the_tables_and_everybody_can_read_it(
    mariadb_server: MariaServer, mariadb_database: str, tmp_path: Path
) -> None:
    mine = mariadb_database.rpartition("/")[2]
    async with operator_tables(mariadb_database) as tables:
        mariadb_server.query(FILES, mine)
        await elements(tables, "gnb-1", "gnb-2", "<i>gnb-3</i>")
        await counted(tables, 1, (quarter for quarter in range(96) if quarter % 7), {101: 1.0})
        await counted(tables, 2, range(60), {101: 1.0})
        for statement in SEEN:
            mariadb_server.query(statement, mine)
        report = await pipeline_report(tables, DAY, END, PeriodSpan(DAY, END, 900), END + timedelta(hours=1))
    assert_figures(report)
    with Browser(chromium_path(), tmp_path / "profile", "about:blank") as browser:
        for language, width, scheme in (("en", 1_440, "light"), ("vi", 390, "dark")):
            save(page(report, TEXTS.of(language)), tmp_path / "report.html")
            browser.narrow(width)
            browser.prefer(scheme)
            browser.open((tmp_path / "report.html").as_uri())
            assert browser.run("document.documentElement.scrollWidth") == width
            assert browser.run(CUT) == []
            assert browser.violations() == [], (width, scheme)
            assert "<b>pointer</b> at word" in browser.run("document.body.textContent")
            assert browser.run("document.querySelectorAll('#gaps .strip').length") == 3
            assert browser.run("document.querySelectorAll('#files .plot rect').length") > 24
        assert browser.said == []


def assert_figures(report: PipelineReport) -> None:
    assert report.seen == 576
    assert report.now["ERROR"] == 24
    assert sum(report.now.values()) == 576
    assert (report.steps.period_s, len(report.steps)) == (3_600, 24)
    assert report.states[0] == {"MOVED": 23, "ERROR": 1}
    both, mysql = report.latency["both"], report.latency["mysql"]
    assert both.count == sum(1 for number in range(540) if number % 24 != 7)
    assert mysql.count == sum(1 for number in range(560) if number % 24 != 7)
    assert (both.percentile(50), max(both.seconds), max(mysql.seconds)) == (19, 29, 14)
    assert [(each.fault, each.count) for each in report.errors] == [
        ("<b>pointer</b> at word … lies", 12),
        ("Unknown NE: …", 12),
    ]
    assert report.latency["clickhouse"].seconds == {40: 100}
    shown, unseen = (
        page(report, TEXTS.of("en")),
        replace(report, latency={**report.latency, "clickhouse": FileLatency({})}),
    )
    assert "ClickHouse (seen there)" in shown
    assert "Kafka (acknowledged by the broker)" in shown
    assert "nobody has looked" not in shown
    assert "nobody has looked" in page(unseen, TEXTS.of("en")), "what is not known is not 0"
    assert "ClickHouse (seen there)" not in page(unseen, TEXTS.of("en"))
    assert report.gaps is not None
    assert [each.missing for each in report.gaps.elements] == [96, 36, 14]


async def test_a_report_of_empty_tables_says_what_is_not_known(mariadb_database: str) -> None:
    async with operator_tables(mariadb_database) as tables:
        month = PeriodSpan(DAY, DAY + timedelta(days=30), 900)
        report = await pipeline_report(tables, month.first, month.end, month, DAY)
    assert (report.seen, report.gaps, len(report.steps)) == (0, None, 30)
    shown = page(report, TEXTS.of("en"))
    assert "there are no elements" in shown
    assert "No file was seen in this time." in shown


def test_a_percentile_is_a_time_within_which_that_share_was_done() -> None:
    latency = FileLatency({1: 50, 2: 45, 60: 5})
    assert [latency.percentile(share) for share in (50, 51, 95, 96, 100)] == [1, 2, 2, 60, 60]
    assert FileLatency({}).percentile(50) is None


def test_messages_with_the_same_fault_are_one() -> None:
    assert fault_of("'a.dat' of /Access/x 12 at 0x1f") == fault_of("'b c' of /Core/y/z 7 at 0x2e")
    assert fault_of("Unknown NE: gnb 1/x") == "Unknown NE: …"
    assert fault_of("server away") != fault_of("server busy")
    assert step_for(timedelta(hours=2)) == 300
