"""The contract of a Compose file: it fits the schema, and its containers are pinned, healthy, private and complete.

    class TestContainers(ComposeContract):
        file = Path("infra/compose.yaml")
        once = {"migrate"}

Needs `jsonschema` and `pyyaml`; the schema is the rig's (`headrace rig get compose-schema`).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Set
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
import yaml

from headrace.testing.rig.catalogue import TOOLS

Document = dict[str, Any]
READ_AS_YAML = {".yaml", ".yml", ".json"}
SLIPS = [
    ("imgae", "redis:7.0"),
    ("ports", "6379"),
    ("depends_on", {"other": "healthy"}),
    ("depends_on", {"other": {"condition": "up"}}),
]


class ComposeContract:
    """Brings `file`, and in `once` the containers that run to their end and so have no health to tell."""

    file: ClassVar[Path]
    once: ClassVar[Set[str]] = frozenset()

    @pytest.fixture
    def schema(self) -> Document:
        found: Document = json.loads(TOOLS["compose-schema"].path().read_text("utf-8"))
        return found

    @pytest.fixture
    def compose(self) -> Document:
        found: Document = yaml.safe_load(self.file.read_text("utf-8"))
        return found

    def test_the_compose_file_fits_the_schema(self, schema: Document, compose: Document) -> None:
        jsonschema.Draft202012Validator(schema).validate(compose)

    @pytest.mark.parametrize(("key", "value"), SLIPS)
    def test_the_schema_finds_a_slip(self, schema: Document, compose: Document, key: str, value: object) -> None:
        judge = jsonschema.Draft202012Validator(schema)
        for service in compose["services"]:
            slipped = copy.deepcopy(compose)
            slipped["services"][service][key] = value
            assert not judge.is_valid(slipped), service

    def test_every_container_is_pinned_and_tells_its_health(self, compose: Document) -> None:
        services = compose["services"]
        assert {name for name, service in services.items() if "healthcheck" not in service} == self.once
        images = {name: service["image"] for name, service in services.items()}
        assert {name for name, image in images.items() if ":" not in image or "latest" in image} == set()

    def test_containers_are_reached_from_this_machine_only(self, compose: Document) -> None:
        published = [port for service in compose["services"].values() for port in service.get("ports", ())]
        assert published
        assert [port for port in published if not port.startswith("127.0.0.1:")] == []

    def test_what_containers_mount_is_there(self, compose: Document) -> None:
        mounts = {
            mount.split(":")[0] for service in compose["services"].values() for mount in service.get("volumes", ())
        }
        files = {mount for mount in mounts if mount.startswith(".")}
        assert mounts - files == set(compose.get("volumes", ()))
        for path in (self.file.parent / name for name in files):
            assert path.exists(), path
            if path.suffix in READ_AS_YAML:
                assert yaml.safe_load(path.read_text("utf-8")), path
