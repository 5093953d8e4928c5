"""The containers for users who have a container engine: every server of the rig has one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.testing.contracts.compose import ComposeContract, Document
from headrace.testing.rig.catalogue import SERVERS

FOLDER = Path(__file__).resolve().parents[2] / "docker"
# A second server of a kind is for the tests' matrix; Redis has the name that the specification of smap gives it.
CONTAINERS = {*SERVERS, "grafana", "smap-redis-master"} - {"postgres15", "redis", "sftp", "vsftpd"}


class TestContainers(ComposeContract):
    file = FOLDER / "compose.yaml"


@pytest.fixture
def compose() -> Document:
    found: Document = yaml.safe_load(TestContainers.file.read_text("utf-8"))
    return found


def test_every_server_of_the_rig_has_a_container(compose: Document) -> None:
    assert set(compose["services"]) == CONTAINERS


@pytest.mark.parametrize(
    ("test", "slip"),
    [
        ("test_every_container_is_pinned_and_tells_its_health", {"image": "redis"}),
        ("test_every_container_is_pinned_and_tells_its_health", {"image": "redis:latest"}),
        ("test_every_container_is_pinned_and_tells_its_health", {"healthcheck": None}),
        ("test_containers_are_reached_from_this_machine_only", {"ports": ["6379:6379"]}),
        ("test_what_containers_mount_is_there", {"volumes": ["nowhere:/data"]}),
        ("test_what_containers_mount_is_there", {"volumes": ["./nowhere.conf:/data"]}),
    ],
)
def test_a_container_that_breaks_the_contract_is_found(test: str, slip: Document, compose: Document) -> None:
    judge = getattr(TestContainers(), test)
    judge(compose)
    broken = compose["services"]["smtp"] | slip
    compose["services"]["smtp"] = {key: value for key, value in broken.items() if value is not None}
    with pytest.raises(AssertionError):
        judge(compose)
