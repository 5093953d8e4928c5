"""Settings are understood or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.blobs import S3Keys
from headrace.errors import CallerError
from headrace.services import table
from headrace_smap.analytics.limits import AnalyticsLimits
from headrace_smap.analytics.modules import ModuleOptions
from headrace_smap.collector.wishes import CRAWL_PREFIX, CrawlWishes
from headrace_smap.frame import FRAME
from headrace_smap.insight.channels import NotificationSettings
from headrace_smap.settings import PREFIX, SmapSettings

PAGE = Path(__file__).parents[3] / "docs" / "smap.md"


def test_nothing_at_all_is_the_embedded_default() -> None:
    settings = FRAME.load({})
    assert settings == SmapSettings()
    assert settings.engine_url == "sqlite:///smap-data/smap.db"
    assert (settings.prefetch, settings.queue, settings.seal_idle_s) == (200, "smap.analytics", None)


def test_the_environment_names_every_part() -> None:
    settings = FRAME.load(
        {
            "SMAP_HOME": "/srv/smap",
            "SMAP_AMQP_URL": "amqp://h",
            "SMAP_REDIS_URL": "redis://h",
            "SMAP_S3_URL": "http://h/b",
            "SMAP_PG_DSN": "postgresql://h/d",
            "SMAP_HTTP_PORT": "0",
            "SMAP_QUEUE": "shared",
            "SMAP_SEAL_IDLE_S": "2.5",
        }
    )
    assert (settings.home, settings.http_port, settings.queue) == (Path("/srv/smap"), 0, "shared")
    assert (settings.seal_idle_s, settings.engine_url) == (2.5, "postgresql://h/d")


def test_what_a_command_is_given_wins() -> None:
    assert FRAME.load({"SMAP_HTTP_PORT": "1"}, http_port=2, queue=None).http_port == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("SMAP_PREFETCH", "0"),
        ("SMAP_PREFETCH", "many"),
        ("SMAP_PREFETCH", "10001"),
        ("SMAP_PREFETCH", "1.5"),
        ("SMAP_HTTP_PORT", "70000"),
        ("SMAP_WORKERS", "-1"),
        ("SMAP_SEAL_IDLE_S", "nan"),
        ("SMAP_RECONCILE_S", "0"),
        ("SMAP_POSTS_MAX", "0"),
    ],
)
def test_a_number_that_cannot_work_is_refused_by_its_name(name: str, text: str) -> None:
    with pytest.raises(CallerError, match=name):
        FRAME.load({name: text})


def test_no_secret_is_shown() -> None:
    places = {"SMAP_AMQP_URL": "amqp", "SMAP_REDIS_URL": "redis", "SMAP_S3_URL": "http", "SMAP_PG_DSN": "postgresql"}
    urls = {name: f"{scheme}://user:secret@host/1" for name, scheme in places.items()}
    assert "secret" not in repr(FRAME.load({"SMAP_API_KEY": "secret", "AWS_SECRET_ACCESS_KEY": "secret", **urls}))


@pytest.mark.parametrize("dsn", ["host=h password=secret dbname=d", "mysql://u:secret@h/d", "u:secret@h/d"])
def test_a_database_that_is_no_url_is_refused_and_not_shown(dsn: str) -> None:
    # headrace's own store would take it for the name of a file, password and all.
    with pytest.raises(CallerError, match="SMAP_PG_DSN") as raised:
        FRAME.load({"SMAP_PG_DSN": dsn})
    assert "secret" not in f"{raised.value} {raised.value.hint}"


@pytest.mark.parametrize(
    ("declared", "prefix"),
    [
        (SmapSettings, PREFIX),
        (S3Keys, "AWS_"),
        (AnalyticsLimits, PREFIX),
        (CrawlWishes, CRAWL_PREFIX),
        (NotificationSettings, PREFIX),
        (ModuleOptions, PREFIX),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__,
)
def test_the_tables_of_the_page_are_what_the_code_declares(declared: type, prefix: str) -> None:
    assert table(declared, prefix) in PAGE.read_text("utf-8")
