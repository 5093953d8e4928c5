"""What each distribution brings: the engine's nothing of an application, an application's its own packages only."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    line = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    sources = [".", *(f"./{path.parent.relative_to(ROOT)}" for path in ROOT.glob("apps/*/pyproject.toml"))]
    done = subprocess.run(
        [*line, "--no-build-isolation", "-w", str(folder), *sources], cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return folder


def files(wheels: Path, distribution: str) -> dict[str, bytes]:
    (wheel,) = wheels.glob(f"{distribution}-[0-9]*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def declared(found: dict[str, bytes]) -> str:
    return "".join(text.decode() for name, text in found.items() if name.endswith("/entry_points.txt"))


def packages(found: dict[str, bytes]) -> set[str]:
    return {name.split("/")[0] for name in found if ".dist-info/" not in name}


def test_the_engine_brings_nothing_of_an_application(wheels: Path) -> None:
    found = files(wheels, "headrace")
    assert packages(found) == {"headrace"}
    assert {"headrace/core/errors.py", "headrace/pages/page.css", "headrace/pages/page.js"} <= set(found)
    assert not [name for name in found if name.startswith("headrace/apps/")]
    assert "[console_scripts]" in declared(found)
    assert "headrace.apps" not in declared(found)


def test_silver_brings_the_worker_of_its_specification_and_its_tables(wheels: Path) -> None:
    found = files(wheels, "headrace_silver")
    assert packages(found) == {"headrace_silver", "worker"}
    assert found["headrace_silver/db/init.sql"] == (ROOT / "apps/silver/db/init.sql").read_bytes()
    sql = "headrace_silver/sql"
    assert {"worker/main.py", f"{sql}/postgres/put.sql", f"{sql}/sqlite/put.sql"} <= set(found)
    assert any(name.startswith(f"{sql}/sqlite/migrations/") for name in found)
    assert "[headrace.apps]\nsilver = headrace_silver.commands:register" in declared(found)


def test_smap_brings_its_package_with_its_scripts_and_words(wheels: Path) -> None:
    found = files(wheels, "headrace_smap")
    assert packages(found) == {"headrace_smap"}
    kinds = {Path(name).suffix for name in found}
    assert {".py", ".sql", ".lua", ".html", ".txt", ".tsv", ".jsonl"} <= kinds
    assert "[headrace.apps]\nsmap = headrace_smap.commands:register" in declared(found)


def test_scheduler_brings_its_schema_and_the_statements_of_both_worlds(wheels: Path) -> None:
    found = files(wheels, "headrace_scheduler")
    assert packages(found) == {"headrace_scheduler"}
    schema = ROOT / "apps/scheduler/infra/schema.cql"
    assert found["headrace_scheduler/infra/schema.cql"] == schema.read_bytes()
    assert {"headrace_scheduler/cql/jobs.cql", "headrace_scheduler/sql/sqlite/jobs.sql"} <= set(found)
    assert "[headrace.apps]\nscheduler = headrace_scheduler.commands:register" in declared(found)


def test_pm_brings_the_schema_of_its_files(wheels: Path) -> None:
    found = files(wheels, "headrace_pm")
    assert packages(found) == {"headrace_pm"}
    assert "headrace_pm/wire/counter.capnp" in found
    assert "[headrace.apps]\npm = headrace_pm.commands:register" in declared(found)


def test_matching_brings_the_schemas_of_its_events(wheels: Path) -> None:
    found = files(wheels, "headrace_matching")
    assert packages(found) == {"headrace_matching"}
    schemas = {path.name: path.read_bytes() for path in (ROOT / "apps/matching/schemas/events").iterdir()}
    assert len(schemas) == 14
    assert {name: found[f"headrace_matching/schemas/events/{name}"] for name in schemas} == schemas
    assert "[headrace.apps]\nmatching = headrace_matching.commands:register" in declared(found)
