"""All tests in two runs that take files from one list: each file is run once, by the run that is free."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT

RUN_S_MAX = 60
# Each test notes in which process it ran.
NOTING = """
import os
from pathlib import Path

def test_one(): Path("{name}.one").write_text(str(os.getpid()))
def test_two(): Path("{name}.two").write_text(str(os.getpid()))
"""


def halves(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "halves")],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in "abcdef":
        (tmp_path / f"test_{name}.py").write_text(NOTING.format(name=name))
    return tmp_path


def test_a_run_that_is_free_takes_the_files_that_are_left_and_none_runs_twice(folder: Path) -> None:
    """The first file ends when the other run has come as far as the third; the second is taken by then. Who runs the
    last test of a file has taken the next, so the gate is opened by another one."""
    os.mkfifo(folder / "gate")
    (folder / "test_a.py").write_text("def test_patient(): assert open('gate').read() == ''")
    (folder / "test_c.py").write_text(f"def test_open(): open('gate', 'w').close()\n{NOTING.format(name='c')}")
    done = halves(folder)
    assert done.returncode == 0, done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines() if " passed in " in line] == ["3", "9"]
    assert len({(folder / f"{name}.{test}").read_text() for name in "cdef" for test in ("one", "two")}) == 1


def test_a_failure_of_either_is_that_of_the_whole(folder: Path) -> None:
    (folder / "test_f.py").write_text("def test_wrong(): raise ValueError('here')")
    done = halves(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert done.stdout.count("1 failed") == 1


def test_a_file_that_cannot_be_imported_ends_both(folder: Path) -> None:
    (folder / "test_c.py").write_text("import no_such_module")
    assert halves(folder).returncode == pytest.ExitCode.INTERRUPTED
    assert not list(folder.glob("*.one"))


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "import pytest; pytest.exit('enough', returncode=0)"])
def test_a_run_that_ended_before_its_tests_did_is_a_failure(folder: Path, end: str) -> None:
    (folder / "test_c.py").write_text(f"def test_last(): {end}")
    done = halves(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "ended before its tests did" in done.stdout
