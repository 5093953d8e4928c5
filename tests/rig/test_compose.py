"""The containers for users who have a container engine: judged by the Compose schema, and by what the rig promises."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from headrace.testing.rig.catalogue import SERVERS, TOOLS

FOLDER = Path(__file__).resolve().parents[2] / "docker"
Document = dict[str, Any]
# The second version of a server is for the tests' matrix; Redis has the name that the specification of smap gives it.
CONTAINERS = {*SERVERS, "grafana", "smap-redis-master"} - {"postgres15", "redis"}


@pytest.fixture(scope="module")
def schema() -> Document:
    found: Document = json.loads(TOOLS["compose-schema"].path().read_text("utf-8"))
    return found


@pytest.fixture(scope="module")
def compose() -> Document:
    found: Document = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
    return found


def test_the_compose_file_fits_the_schema(schema: Document, compose: Document) -> None:
    jsonschema.Draft202012Validator(schema).validate(compose)


@pytest.mark.parametrize(
    ("service", "key", "value"),
    [
        ("smap-redis-master", "imgae", "redis:7.0"),
        ("smap-redis-master", "ports", "6379"),
        ("grafana", "depends_on", {"prometheus": {"condition": "up"}}),
    ],
)
def test_the_schema_finds_a_slip(schema: Document, compose: Document, service: str, key: str, value: object) -> None:
    slipped = copy.deepcopy(compose)
    slipped["services"][service][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(slipped)


def test_every_server_of_the_rig_has_a_container_that_tells_its_health(compose: Document) -> None:
    services = compose["services"]
    assert set(services) == CONTAINERS
    assert [name for name, service in services.items() if "healthcheck" not in service] == []
    assert [
        name for name, service in services.items() if ":" not in service["image"] or "latest" in service["image"]
    ] == []


def test_containers_are_reached_from_this_machine_only(compose: Document) -> None:
    published = [port for service in compose["services"].values() for port in service["ports"]]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


def test_what_containers_mount_is_there(compose: Document) -> None:
    mounts = [mount.split(":")[0] for service in compose["services"].values() for mount in service.get("volumes", [])]
    files = [mount for mount in mounts if mount.startswith(".")]
    assert {mount for mount in mounts if mount not in files} == set(compose["volumes"])
    assert len(files) == 2
    for name in files:
        assert yaml.safe_load((FOLDER / name).read_text("utf-8"))
