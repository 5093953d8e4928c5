"""Days are those of one zone, Vietnam's unless a setting says otherwise, and wherever they are shown it is said."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import msgspec
import pytest
from smap_analytics_desk import Desk, open_desk
from smap_office import open_office
from smap_posts import PROJECT, post

from headrace.errors import CallerError
from headrace_smap.analytics.service import rerun
from headrace_smap.collector.crawlers.feed_addresses import filled
from headrace_smap.collector.crawlers.formats import Item, day_of
from headrace_smap.collector.crawlers.simulated import Simulation, made_up
from headrace_smap.collector.task_plan import read_order, split
from headrace_smap.collector.tasks import CrawlTask
from headrace_smap.count.accountant import Accountant
from headrace_smap.days import VIETNAM, begin_of, clock_in, end_of
from headrace_smap.envelope import moment
from headrace_smap.frame import FRAME
from headrace_smap.insight.aggregates import Aggregator
from headrace_smap.insight.report.content import gather
from headrace_smap.insight.report.reader import ReportReader
from headrace_smap.project.export import csv_pieces
from headrace_smap.settings import SmapSettings

UTC_ZONE = ZoneInfo("UTC")
EVENING = {"late": "2025-01-01T16:59:59Z", "later": "2025-01-01T17:00:00Z", "next": "2025-01-02T16:59:59Z"}
"""A second before midnight of Vietnam, midnight, and a second before the next."""


def test_days_are_vietnams_unless_somebody_says_otherwise() -> None:
    assert FRAME.load({}).timezone == VIETNAM
    assert FRAME.load({"SMAP_TIMEZONE": "Europe/Berlin"}).timezone.key == "Europe/Berlin"


@pytest.mark.parametrize("name", ["Mars/Olympus", "+07:00", "../UTC", "Asia", "/etc/localtime"])
def test_a_zone_that_there_is_not_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(CallerError, match=r"SMAP_TIMEZONE = .* is no time zone: write a name such as Asia/Ho_Chi_Minh"):
        FRAME.load({"SMAP_TIMEZONE": name})


def test_a_day_begins_and_ends_at_midnight_of_its_zone() -> None:
    day = date(2025, 3, 30)
    assert begin_of(day, VIETNAM) == datetime(2025, 3, 29, 17, tzinfo=UTC)
    assert end_of(day, VIETNAM) == datetime(2025, 3, 30, 17, tzinfo=UTC)
    berlin = ZoneInfo("Europe/Berlin")
    assert (end_of(day, berlin) - begin_of(day, berlin)).total_seconds() == 23 * 3_600, "the clocks go forward"


async def analysed(desk: Desk) -> None:
    await desk.store(**{name: post(id=name, published_at=at) for name, at in EVENING.items()})
    await desk.handler().handle(desk.deliveries())


@pytest.mark.parametrize("place", ["embedded", "real"])
@pytest.mark.parametrize(
    ("zone", "days"),
    [(VIETNAM, {"2025-01-01": 1, "2025-01-02": 2}), (UTC_ZONE, {"2025-01-01": 2, "2025-01-02": 1})],
)
async def test_aggregates_report_and_export_count_the_same_days(
    place: str, zone: ZoneInfo, days: dict[str, int], request: pytest.FixtureRequest
) -> None:
    settings: SmapSettings = replace(request.getfixturevalue(place), timezone=zone)
    async with open_desk(settings) as desk:
        await Accountant(desk.parts).open(PROJECT)
        await analysed(desk)
        await Aggregator(desk.parts.database).rebuild(PROJECT)
        rows = await desk.parts.database.rows("aggregate_rows", project=PROJECT)
        assert {row[0]: row[4] for row in rows} == days
        report = await gather(desk.parts.database, PROJECT, zone)
        assert report is not None
        assert {day: figures.posts for day, figures in report.days.items()} == days
        assert (report.document()["timezone"], report.other_zones) == (zone.key, ())
        reader = ReportReader(desk.parts.database, zone)
        for page in (await reader.report(PROJECT, {}), await reader.projects({})):
            assert f"days and times of {zone.key}" in str(page)
        text = b"".join([piece async for piece in csv_pieces(desk.parts.database, PROJECT)]).decode("utf-8-sig")
        exported = list(csv.DictReader(io.StringIO(text)))
        assert {day: sum(row["day"] == day for row in exported) for day in days} == days
        assert {row["timezone"] for row in exported} == {zone.key}


@pytest.mark.parametrize("place", ["embedded", "real"])
async def test_another_zone_is_told_until_a_rerun_dates_by_it(place: str, request: pytest.FixtureRequest) -> None:
    settings: SmapSettings = request.getfixturevalue(place)
    settings = replace(settings, environment={**settings.environment, "SMAP_MODULES": "nothing"})
    async with open_desk(replace(settings, timezone=UTC_ZONE)) as desk:
        await Accountant(desk.parts).open(PROJECT)
        await analysed(desk)
        before = await gather(desk.parts.database, PROJECT, VIETNAM)
        assert before is not None
        assert before.other_zones == ("UTC",)
        page = await ReportReader(desk.parts.database).report(PROJECT, {})
        assert f"Some posts are dated by UTC, not by {VIETNAM.key}: headrace smap rerun" in str(page)
        parts = replace(desk.parts, settings=settings)
        assert (await rerun(parts, PROJECT)).rewritten == len(EVENING)
        assert (await rerun(parts, PROJECT)).rewritten == 0
        after = await gather(desk.parts.database, PROJECT, VIETNAM)
        assert after is not None
        assert (after.other_zones, set(after.days)) == ((), {"2025-01-01", "2025-01-02"})


@pytest.mark.parametrize("written", ["2025-01-02", "2/1/2025", "2025-01-02T00:30:00", "Thu, 02 Jan 2025 00:30:00"])
async def test_a_time_without_a_zone_stays_on_its_day(written: str, embedded: SmapSettings) -> None:
    async with open_desk(replace(embedded, timezone=ZoneInfo("America/New_York"))) as desk:
        await desk.store(one=post(published_at=written))
        await desk.handler().handle(desk.deliveries())
        ((_, *row),) = await desk.parts.database.rows("project_results", project=PROJECT, after="", room=2)
        assert date(2025, 1, 2) in row


async def test_the_last_moment_of_all_has_a_day_too(embedded: SmapSettings) -> None:
    async with open_desk(embedded) as desk:
        await desk.store(one=post(published_at="9999-12-31T23:00:00Z"))
        await desk.handler().handle(desk.deliveries())
        ((_, *row),) = await desk.parts.database.rows("project_results", project=PROJECT, after="", room=2)
        assert date(9999, 12, 31) in row
        assert clock_in(VIETNAM, datetime(9999, 12, 31, 23, tzinfo=UTC)).hour == 23


async def test_a_project_and_the_form_for_one_name_the_zone_of_days(embedded: SmapSettings) -> None:
    async with open_office(replace(embedded, timezone=ZoneInfo("Asia/Bangkok"))) as office:
        project = await office.make()
        assert (await office.client.get(f"/projects/{project}")).json()["timezone"] == "Asia/Bangkok"
        assert "First day (Asia/Bangkok)" in (await office.client.get("/")).text


def task_of(zone: ZoneInfo) -> CrawlTask:
    order = {"keywords": ["VF3"], "date_range": ["2025-01-02", "2025-01-02"]}
    (task,) = split(read_order("p", order, zone), ("tiktok",))
    return task


def test_a_date_range_is_crawled_from_midnight_to_midnight_of_the_zone() -> None:
    template = "https://h/?from={start_at}&to={end_at}"
    assert filled(template, task_of(VIETNAM)) == "https://h/?from=2025-01-01T17%3A00%3A00Z&to=2025-01-02T17%3A00%3A00Z"
    assert filled(template, task_of(UTC_ZONE)) == "https://h/?from=2025-01-02T00%3A00%3A00Z&to=2025-01-03T00%3A00%3A00Z"


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        (EVENING["late"], False),
        (EVENING["later"], True),
        (EVENING["next"], True),
        ("2025-01-02T17:00:00Z", False),
        (datetime(2025, 1, 1, 17, tzinfo=UTC).timestamp(), True),
        ("2025-01-02T23:59:59", True),
    ],
)
def test_a_feed_leaves_out_what_is_of_another_day_of_the_zone(at: object, wanted: bool) -> None:
    task = task_of(VIETNAM)
    day = day_of(Item({"published_at": at}), {}, task.zone)
    assert day is not None
    assert task.covers(day) is wanted


def test_simulated_posts_are_of_the_day_that_was_asked_for() -> None:
    task = task_of(VIETNAM)
    posts = [msgspec.json.decode(made_up(Simulation(broken=0), task, number).body) for number in range(200)]
    times = [each["published_at"] for each in posts]
    assert task.start_at is not None
    assert task.end_at is not None
    assert moment(task.start_at) <= min(times) < max(times) < moment(task.end_at)
