"""Settings by the names of the specification: understood, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import CallerError
from headrace.services import table
from headrace.tables import CassandraOptions
from headrace_scheduler.frame import FRAME
from headrace_scheduler.settings import PREFIX, SchedulerSettings

PAGE = Path(__file__).parents[3] / "docs" / "scheduler.md"


def test_nothing_at_all_means_cassandra_with_the_defaults_of_the_specification() -> None:
    settings = FRAME.load({})
    assert settings == SchedulerSettings()
    assert FRAME.ports_of(settings)["all"] == 8080
    assert (settings.poll_interval_ms, settings.buckets, settings.max_in_progress) == (500, 16, 16)
    assert (settings.max_attempts, settings.backoff_base_ms, settings.backoff_max_ms) == (5, 500, 60_000)
    assert (settings.lock_ttl_ms, settings.http_allow, settings.command_allow) == (30_000, (), ())
    assert settings.cassandra_url == "cassandra://127.0.0.1:9042/job_scheduler?local_dc=datacenter1&block_size=100"


def test_a_port_that_is_set_is_that_of_whoever_takes_jobs() -> None:
    ports = FRAME.ports_of(FRAME.load({"WORKER_HTTP_PORT": "18080"}))
    assert ports == {"all": 18080, "api": 18080, "worker": 18081, "reconciler": 18082}


def test_the_environment_names_everything_by_the_specification() -> None:
    settings = FRAME.load(
        {
            "WORKER_HTTP_PORT": "0",
            "WORKER_POLL_INTERVAL_MS": "100",
            "WORKER_BUCKETS": "32",
            "WORKER_MAX_IN_PROGRESS": "4",
            "WORKER_MAX_ATTEMPTS": "3",
            "WORKER_BACKOFF_BASE_MS": "10",
            "WORKER_BACKOFF_MAX_MS": "1000",
            "WORKER_HTTP_ALLOW": "http://127.0.0.1:, https://shop.example/hooks/",
            "LOCK_TTL_MS": "1000",
            "LOCK_SEQ_BLOCK_SIZE": "7",
            "CASSANDRA_CONTACT_POINT": "10.0.0.1, 10.0.0.2",
            "CASSANDRA_PORT": "19042",
            "CASSANDRA_KEYSPACE": "jobs",
            "CASS_LOCAL_DC": "dc1",
        }
    )
    assert settings.cassandra_url == "cassandra://10.0.0.1,10.0.0.2:19042/jobs?local_dc=dc1&block_size=7"
    assert (settings.http_port, settings.poll_interval_s, settings.lock_ttl_s) == (0, 0.1, 1.0)
    assert (settings.buckets, settings.max_in_progress, settings.max_attempts) == (32, 4, 3)
    assert settings.http_allow == ("http://127.0.0.1:", "https://shop.example/hooks/")


def test_consistencies_are_those_of_the_operator() -> None:
    told = FRAME.load({"CASSANDRA_OPTIONS": "serial=SERIAL&read.queue=QUORUM&write.queue=EACH_QUORUM"})
    options = CassandraOptions.of(told.cassandra_url)
    assert options.levels("lock", reads=True) == ("SERIAL", "SERIAL")
    assert options.levels("queue", reads=True) == ("QUORUM", "SERIAL")
    assert options.levels("queue", reads=False) == ("EACH_QUORUM", "SERIAL")
    assert options.levels("history", reads=False) == ("LOCAL_QUORUM", "SERIAL")
    with pytest.raises(CallerError):
        CassandraOptions.of(FRAME.load({"CASSANDRA_OPTIONS": "serial=SOMETIMES"}).cassandra_url)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LOCK_TTL_MS", "999"),
        ("WORKER_BUCKETS", "0"),
        ("WORKER_MAX_ATTEMPTS", "0"),
        ("WORKER_POLL_INTERVAL_MS", "soon"),
        ("WORKER_BACKOFF_MAX_MS", "499"),
        ("CASSANDRA_PORT", "0"),
    ],
)
def test_what_cannot_work_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(CallerError, match=variable):
        FRAME.load({variable: value})


@pytest.mark.parametrize(("base", "most"), [(500, 60_000), (100, 100), (100, 150)])
def test_pauses_lie_between_the_base_and_the_most(base: int, most: int) -> None:
    settings = SchedulerSettings(backoff_base_ms=base, backoff_max_ms=most)
    for attempt in range(1, 20):
        for chance in (0.0, 0.5, 0.999):
            assert base <= round(settings.retries.delay_s(attempt, chance) * 1_000, 6) <= most


def test_the_page_tells_every_setting() -> None:
    assert table(SchedulerSettings, PREFIX) in PAGE.read_text("utf-8")
