"""Worlds for smap's tests: embedded in a directory, or on the real servers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from smap_results import AT

from headrace.testing.rig.s3 import Bucket
from headrace_smap.database import Database, open_database
from headrace_smap.frame import FRAME
from headrace_smap.settings import SmapSettings


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A command that runs in this process may change what is logged."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def embedded(tmp_path: Path) -> SmapSettings:
    """Nothing but a directory; platforms that nothing serves are simulated."""
    return FRAME.load({"PATH": os.environ["PATH"], "SMAP_HOME": str(tmp_path / "smap"), "SMAP_SIMULATED": "1"})


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, embedded: SmapSettings) -> AsyncIterator[Database]:
    """smap's tables in each store, and the project `p` in them."""
    settings = embedded
    if request.param == "postgres":
        settings = replace(embedded, pg_dsn=request.getfixturevalue("postgres_database"))
    settings.home.mkdir(exist_ok=True)
    async with open_database(settings.engine_url) as opened:
        await opened.rows("truth_open", project="p", now=AT)
        yield opened


@pytest.fixture
def real_environment(
    tmp_path: Path, postgres_database: str, redis_database: str, rabbitmq_vhost: str, s3_bucket: Bucket
) -> dict[str, str]:
    """Variables that name RabbitMQ, Redis, S3 and PostgreSQL, each empty."""
    return {
        "PATH": os.environ["PATH"],
        "SMAP_HOME": str(tmp_path / "smap"),
        "SMAP_SIMULATED": "1",
        "SMAP_AMQP_URL": rabbitmq_vhost,
        "SMAP_REDIS_URL": redis_database,
        "SMAP_PG_DSN": postgres_database,
        "SMAP_S3_URL": s3_bucket.url,
        "AWS_ACCESS_KEY_ID": s3_bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_bucket.secret_key,
        "AWS_REGION": s3_bucket.region,
    }


@pytest.fixture
def real(real_environment: dict[str, str]) -> SmapSettings:
    return FRAME.load(real_environment)
