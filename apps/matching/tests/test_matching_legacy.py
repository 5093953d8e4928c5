"""The names of the old events are gone: one module, the changelog and the tests of both know them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headrace_matching.legacy.names import REPLACED

ROOT = Path(__file__).resolve().parents[3]
ALLOWED = {"apps/matching/src/headrace_matching/legacy/names.py", "CHANGELOG.md"}
FORMS = tuple(form for name in REPLACED for form in (name, name.replace(".", "_")))


def places(files: dict[str, bytes]) -> set[str]:
    """Files in whose name or text one of the old names stands."""
    return {name for name, text in files.items() if any(form in name or form.encode() in text for form in FORMS)}


def tracked() -> dict[str, bytes]:
    """Everything that is in the project, whatever it is: sources, docs, dashboards, compose files, settings."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    names = [name for name in listed.stdout.decode().split("\0") if name]
    return {name: (ROOT / name).read_bytes() for name in names if (ROOT / name).is_file()}


def test_an_old_name_is_found_in_both_forms() -> None:
    assert len(FORMS) == 4
    assert places({"a.md": f"see {FORMS[0]}".encode(), f"{FORMS[3]}.json": b"", "b.md": b"match.result"}) == {
        "a.md",
        f"{FORMS[3]}.json",
    }


def test_old_names_stand_nowhere_else() -> None:
    found = tracked()
    assert len(found) > 1_000
    assert places(found) <= ALLOWED
