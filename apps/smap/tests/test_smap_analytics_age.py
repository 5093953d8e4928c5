"""How old a post is counts against the end of its project's days, whenever it is analysed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from smap_analytics_desk import open_desk, payload
from smap_posts import PROJECT, post

from headrace_smap.analytics.modules import pipeline
from headrace_smap.analytics.projects import wish_of
from headrace_smap.analytics.service import rerun
from headrace_smap.days import VIETNAM
from headrace_smap.project.creator import Creator
from headrace_smap.project.export import NAMES
from headrace_smap.project.orders import AcceptedOrder
from headrace_smap.settings import SmapSettings

CRISIS = "Dịch vụ quá tệ, thất vọng, lừa đảo khách hàng"
HEARD = {"views": 5_000_000, "likes": 90_000, "comments": 20_000, "shares": 9_000}


@pytest.mark.parametrize("place", ["embedded", "real"])
async def test_a_crisis_of_last_month_is_critical_today(place: str, request: pytest.FixtureRequest) -> None:
    settings: SmapSettings = request.getfixturevalue(place)
    last = datetime.now(UTC).replace(hour=9, minute=0) - timedelta(days=35)
    days = [(last - timedelta(days=30)).date().isoformat(), last.date().isoformat()]
    async with open_desk(settings) as desk:
        creator = Creator(desk.parts)
        await creator.create(PROJECT, AcceptedOrder(["VF3"], [], days))
        await desk.store(crisis=post(text=CRISIS, metrics=HEARD, published_at=last.isoformat()))
        await desk.handler(pipeline()).handle(desk.deliveries())
        (told,) = await desk.told()
        assert payload(told)["risk"] == "CRITICAL"
        assert (await rerun(desk.parts, PROJECT)).rewritten == 0
        await desk.handler().handle(desk.deliveries())
        assert (await rerun(desk.parts, PROJECT)).rewritten == 1
        (row,) = await desk.parts.database.rows("project_results", project=PROJECT, after="", room=2)
        assert dict(zip(NAMES, row, strict=True))["risk"] == "CRITICAL", "as when it was first analysed"


@pytest.mark.parametrize(
    ("date_range", "until"),
    [
        (["2025-01-01", "2025-01-31"], datetime(2025, 1, 31, 17, tzinfo=UTC)),
        ({"from": "2025-01-01", "to": "2025-01-31T16:00:00Z"}, datetime(2025, 1, 31, 17, tzinfo=UTC)),
        *((given, None) for given in (None, [], "soon", ["x", "y"], ["2025-01-31"], 7, ["9999-12-30", "9999-12-31"])),
    ],
)
def test_days_of_foreign_services_are_read_with_patience(date_range: object, until: datetime | None) -> None:
    assert wish_of((False, False, ["a"], date_range), VIETNAM).until == until
