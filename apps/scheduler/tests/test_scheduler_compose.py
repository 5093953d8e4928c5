"""The containers of the scheduler: judged by the Compose schema, and by the commands and settings that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.testing.contracts.compose import ComposeContract, Document

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "apps" / "scheduler" / "infra"
SERVICES = {"cassandra1", "cassandra2", "cassandra3", "worker", "prometheus", "grafana", "postgres", "orders", "schema"}
OURS = ("schema", "worker", "orders")


class TestContainers(ComposeContract):
    file = FOLDER / "compose.yaml"
    once = frozenset({"schema"})


@pytest.fixture(scope="module")
def compose() -> Document:
    found: Document = yaml.safe_load(TestContainers.file.read_text("utf-8"))
    return found


def test_every_container_is_there(compose: Document) -> None:
    assert set(compose["services"]) == SERVICES


def test_containers_wait_for_what_they_need(compose: Document) -> None:
    services = compose["services"]
    waits = {name: set(service.get("depends_on", ())) for name, service in services.items()}
    assert waits["cassandra2"] == {"cassandra1"}
    assert waits["cassandra3"] == {"cassandra2"}
    assert waits["schema"] == {"cassandra3"}
    assert services["worker"]["depends_on"]["schema"]["condition"] == "service_completed_successfully"


def test_containers_are_reached_at_their_ports(compose: Document) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert {port.split(":")[1] for port in published} >= {"8080", "8095", "9042"}


def test_rules_are_mounted_and_the_image_can_be_built(compose: Document) -> None:
    rules = yaml.safe_load((FOLDER / "prometheus/compose.yaml").read_text("utf-8"))["rule_files"]
    targets = {mount.split(":")[1] for service in compose["services"].values() for mount in service.get("volumes", [])}
    assert set(rules) <= targets
    build = compose["services"]["worker"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).read_text("utf-8").count("./apps/scheduler") == 1
    kept = (FOLDER / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert [line for line in kept if line.startswith("!") and not (ROOT / line[1:]).exists()] == []


def test_our_containers_run_commands_and_name_settings_that_there_are(compose: Document, headrace_command: Any) -> None:
    known = set(json.loads(headrace_command("scheduler", "settings", "--json").stdout))
    for name in OURS:
        service = compose["services"][name]
        (command,) = service["command"]
        assert headrace_command("scheduler", command, "--help").returncode == 0, command
        assert set(service["environment"]) - known == set(), name


def test_prometheus_scrapes_the_containers_where_they_listen(compose: Document) -> None:
    jobs = yaml.safe_load((FOLDER / "prometheus" / "compose.yaml").read_text("utf-8"))["scrape_configs"]
    targets = [target for job in jobs for scraped in job["static_configs"] for target in scraped["targets"]]
    listening = [
        f"{name}:{service['environment'][variable]}"
        for name, variable in (("worker", "WORKER_HTTP_PORT"), ("orders", "ORDERS_HTTP_PORT"))
        for service in [compose["services"][name]]
    ]
    assert targets == listening
    assert jobs[0]["authorization"]["credentials_file"] == "/run/secrets/worker_api_key"
