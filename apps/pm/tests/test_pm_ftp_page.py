"""What docs/pm.md says of settings and errors is what the code says."""

from __future__ import annotations

import inspect
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.services import Sources, read, table
from headrace_pm.ftp import errors
from headrace_pm.ftp.settings import FtpSettings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pm.md"


def test_the_page_has_every_setting() -> None:
    assert table(FtpSettings, "PM_") in PAGE.read_text("utf-8")


def test_settings_are_read_by_the_names_of_the_issue() -> None:
    variables = {"PM_DOWNLOADS": "7", "PM_SPOOL_DIR": "elsewhere", "PM_SPOOL_MAX_BYTES": "1000", "SECRET": "x"}
    found = read(FtpSettings, Sources("PM_", variables))
    assert (found.downloads, found.spool_dir, found.spool_max_bytes) == (7, Path("elsewhere"), 1000)
    assert found.environment["SECRET"] == "x"
    assert "SECRET" not in repr(found)


def test_the_page_and_the_tree_name_every_error_and_whether_it_heals() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    assert errors.__doc__ is not None
    for kind in kinds:
        assert issubclass(kind, HeadraceError)
        drawn = next(line for line in errors.__doc__.splitlines() if f"── {kind.__name__} " in line)
        assert (" * " in drawn) is kind.heals, kind
        if kind.__name__ != "RenameUnanswered":
            row = next(line for line in rows if f"`{kind.__name__}`" in line)
            assert row.rstrip(" |").split("| ")[-1].startswith("yes" if kind.heals else "no"), kind
