"""Settings of the command line are read once, by precedence, and refused with words that help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import CallerError
from headrace.services import table
from headrace.settings import PREFIX, Settings, load

OPERATIONS = Path(__file__).parent.parent / "docs" / "operations.md"


def test_what_is_not_said_has_a_default(tmp_path: Path) -> None:
    assert load({}, {}, tmp_path) == Settings()


def test_a_flag_beats_the_environment_and_that_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('store = "file.db"\nhold_s = 5\nprocesses = 3\n')
    environment = {"HEADRACE_STORE": "variable.db", "HEADRACE_HOLD_S": "7.5", "PATH": "x"}
    found = load({"store": "flag.db", "tenant": None}, environment, tmp_path)
    assert (found.store, found.hold_s, found.processes, found.tenant) == ("flag.db", 7.5, 3, "default")


def test_the_file_may_lie_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('tenant = "acme"\n')
    assert load({}, {"HEADRACE_CONFIG": str(tmp_path / "other.toml")}, Path("/")).tenant == "acme"


@pytest.mark.parametrize(
    ("flags", "environment", "text", "word"),
    [
        ({"hold_s": "soon"}, {}, "", "--hold-s"),
        ({}, {"HEADRACE_PROCESSES": "2.5"}, "", "HEADRACE_PROCESSES"),
        ({}, {"HEADRACE_PROCESSES": "0"}, "", "from 1 to 256"),
        ({"hold_s": 0}, {}, "", "--hold-s = 0 is not from 0.1"),
        ({"store": ""}, {}, "", "store is empty"),
        ({"tenant": ""}, {}, "", "tenant is empty"),
        ({}, {}, "stoer = 1", "stoer"),
        ({}, {}, "processes = true", "processes"),
        ({}, {}, "this is not", "not TOML"),
        ({}, {"HEADRACE_CONFIG": "gone.toml"}, "", "gone.toml"),
    ],
)
def test_what_cannot_work_is_refused_by_name(
    flags: dict[str, Any], environment: dict[str, str], text: str, word: str, tmp_path: Path
) -> None:
    if text:
        (tmp_path / "headrace.toml").write_text(text)
    with pytest.raises(CallerError) as caught:
        load(flags, environment, tmp_path)
    assert word in str(caught.value)


def test_the_table_of_the_docs_is_what_the_code_declares() -> None:
    assert table(Settings, PREFIX) in OPERATIONS.read_text("utf-8")
