"""`up` says where the reports are, and how other commands find the same data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from smap_processes import Town, town

from headrace.commands import environment_without
from headrace.testing import ServiceProcess
from headrace_smap.frame import report_url

UP_S_MAX = 180.0
ORDER = {"keywords": ["VF3"], "name": "found again"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(environment_without("SMAP_", "AWS_", "HEADRACE_"), tmp_path) as made:
        yield made


def upped(place: Town, *more: str) -> ServiceProcess:
    up = place.start(["up", "--simulated", *more], SMAP_ANALYSTS="0")
    up.line_with("export SMAP_HOME=").result(UP_S_MAX)
    assert sum("is ready at" in line for line in up.lines) == 4
    return up


def url_of(up: ServiceProcess, name: str) -> str:
    return up.line_with(f"smap {name} is ready at").result().rpartition(" ")[2]


@pytest.mark.parametrize("rig", [False, True])
def test_other_commands_find_what_up_works_on(rig: bool, place: Town, tmp_path: Path) -> None:
    up = upped(place, *(["--rig"] if rig else []))
    answer = httpx.post(f"{url_of(up, 'project')}/projects", json=ORDER, trust_env=False, timeout=60)
    assert answer.status_code == 201, answer.text
    variables = up.exported
    assert variables["SMAP_HOME"] == str(tmp_path / "smap-data")
    servers = {"SMAP_AMQP_URL", "SMAP_REDIS_URL", "SMAP_PG_DSN", "SMAP_S3_URL"}
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    assert set(variables) == {"SMAP_HOME", "SMAP_SIMULATED", *(servers | keys if rig else ())}
    assert answer.json()["id"] in place.run("projects", **variables)
    assert "Simulation is on" in httpx.get(f"{url_of(up, 'project')}/", trust_env=False, timeout=60).text
    place.run("create", "VF3", "--days", "2025-01-01..2025-01-01", **variables)
    assert f"projects are ordered at {url_of(up, 'project')}/" in up.lines
    (reports,) = [line.split()[4] for line in up.lines if line.startswith("reports are served at ")]
    assert reports == f"{url_of(up, 'insight')}/"
    assert httpx.get(reports, trust_env=False, timeout=60).headers["content-type"].startswith("text/html")
    assert up.stop() == 0


def told(port: int, **environment: str) -> str | None:
    return report_url(environment, port).get("SMAP_REPORT_URL")


def test_services_are_told_where_reports_are_if_that_is_known() -> None:
    assert told(8084) == "http://127.0.0.1:8084/projects/{project}/report"
    assert told(8084, SMAP_HTTP_HOST="::1") == "http://[::1]:8084/projects/{project}/report"
    assert told(0, SMAP_PUBLIC_URL="https://insight.example/") == "https://insight.example/projects/{project}/report"
    assert told(8084, SMAP_REPORT_URL="https://other/{project}") is None
    assert told(8084, SMAP_REPORT_URL="") is None
    assert told(8084, SMAP_PUBLIC_URL="insight.example") is None
    assert told(8084, SMAP_HTTP_HOST="0.0.0.0") is None
    assert told(0) is None
