"""`up` says where the reports are, and how other commands find the same data."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from smap_processes import Running, Town, town
from waiting import until

from headrace_smap.frame import report_url

UP_S_MAX = 180.0
ORDER = {"keywords": ["VF3"], "name": "found again"}


def plain() -> dict[str, str]:
    """Whatever the environment holds but settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("SMAP_", "AWS_", "HEADRACE_"))}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Town]:
    with town(plain(), tmp_path) as made:
        yield made


def upped(place: Town, folder: Path, *more: str) -> Running:
    chosen = {"SMAP_HTTP_PORT": "0", "SMAP_ANALYSTS": "0"}
    up = Running(["-m", "headrace", "smap", "up", "--simulated", *more], {**plain(), **chosen}, folder)
    place.running.append(up)
    until(lambda: any("export SMAP_HOME=" in line for line in up.lines), "it says where all is", UP_S_MAX)
    assert sum("is ready at" in line for line in up.lines) == 4
    return up


def exported(up: Running) -> dict[str, str]:
    words = [shlex.split(line) for line in list(up.lines) if line.startswith("export ")]
    return dict(word.split("=", 1) for _, word in words)


def url_of(up: Running, name: str) -> str:
    return next(line for line in up.lines if f"smap {name} is ready at" in line).rpartition(" ")[2]


@pytest.mark.parametrize("rig", [False, True])
def test_other_commands_find_what_up_works_on(rig: bool, place: Town, tmp_path: Path) -> None:
    up = upped(place, tmp_path, *(["--rig"] if rig else []))
    answer = httpx.post(f"{url_of(up, 'project')}/projects", json=ORDER, trust_env=False)
    assert answer.status_code == 201, answer.text
    variables = exported(up)
    assert variables["SMAP_HOME"] == str(tmp_path / "smap-data")
    servers = {"SMAP_AMQP_URL", "SMAP_REDIS_URL", "SMAP_PG_DSN", "SMAP_S3_URL"}
    keys = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"}
    assert set(variables) == {"SMAP_HOME", "SMAP_SIMULATED", *(servers | keys if rig else ())}
    assert answer.json()["id"] in place.run("projects", **variables)
    assert "Simulation is on" in httpx.get(f"{url_of(up, 'project')}/", trust_env=False).text
    place.run("create", "VF3", "--days", "2025-01-01..2025-01-01", **variables)
    assert f"projects are ordered at {url_of(up, 'project')}/" in up.lines
    (reports,) = [line.split()[4] for line in up.lines if line.startswith("reports are served at ")]
    assert reports == f"{url_of(up, 'insight')}/"
    assert httpx.get(reports, trust_env=False).headers["content-type"].startswith("text/html")
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
