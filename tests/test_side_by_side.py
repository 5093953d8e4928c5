"""All tests in several runs that take files from one list: each file is run once, by a run that is free."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

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


def side_by_side(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "side_by_side"), *arguments],
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


@pytest.fixture
def script() -> Any:
    """Its functions, for what must not happen to the memory of this machine."""
    loader = SourceFileLoader("side_by_side", str(ROOT / ".ci" / "side_by_side"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.fixture
def no_other_place() -> Iterator[None]:
    """Nobody has said where temporary files lie."""
    before, directory = os.environ.pop("TMPDIR", None), tempfile.tempdir
    tempfile.tempdir = None
    yield
    tempfile.tempdir = directory
    if before is not None:
        os.environ["TMPDIR"] = before


def passed(done: subprocess.CompletedProcess[str]) -> list[int]:
    """How many tests each run had."""
    return [int(line.split()[1]) for line in done.stdout.splitlines() if " passed in " in line]


def meeting(folder: Path, write: str, read: str, name: str) -> str:
    """A file whose first test writes to and reads from pipes, and so waits until another one does the contrary. It is
    not the last test: whoever runs that has taken the next file."""
    for pipe in {*write, *read}:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(folder / pipe)
    lines = [f"open('{pipe}', 'w').close()" for pipe in write] + [f"open('{pipe}').read()" for pipe in read]
    return f"def test_meet(): {'; '.join(lines)}\n{NOTING.format(name=name)}"


def test_runs_that_are_free_take_the_files_that_are_left_and_none_runs_twice(folder: Path) -> None:
    """The first file ends when the other runs have come as far as the third; the second is taken by then."""
    (folder / "test_a.py").write_text(f"def test_patient(): {'; '.join(f'open({pipe!r}).read()' for pipe in 'fec')}")
    for name in "cef":
        (folder / f"test_{name}.py").write_text(meeting(folder, name, "", name))
    done = side_by_side(folder)
    assert done.returncode == 0, done.stdout
    assert (passed(done)[0], sum(passed(done))) == (3, 14)
    ran = {name: {(folder / f"{name}.{test}").read_text() for test in ("one", "two")} for name in "bcdef"}
    assert all(len(by) == 1 for by in ran.values())
    assert ran["b"] not in [ran[name] for name in "cdef"]


def test_each_run_begins_at_a_place_of_its_own(folder: Path) -> None:
    places = {"tests/postgres": ("", "xy"), "tests/cassandra": ("x", "z"), "apps/smap": ("yz", "")}
    for place, (write, read) in places.items():
        (folder / place).mkdir(parents=True)
        name = Path(place).name
        (folder / place / f"test_{name}.py").write_text(meeting(folder, write, read, name))
    done = side_by_side(folder)
    assert done.returncode == 0, done.stdout
    assert len({(folder / f"{Path(place).name}.one").read_text() for place in places}) == 3


def test_a_failure_of_one_is_that_of_the_whole(folder: Path) -> None:
    (folder / "test_f.py").write_text("def test_wrong(): raise ValueError('here')")
    done = side_by_side(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert done.stdout.count("1 failed") == 1


def test_what_all_files_of_a_folder_need_and_cannot_be_imported_ends_all(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "conftest.py").write_text("import no_such_module")
    (folder / "below" / "test_below.py").write_text("def test_below(): pass")
    assert side_by_side(folder).returncode == pytest.ExitCode.INTERRUPTED
    assert not list(folder.glob("*.one"))


def test_a_file_that_cannot_be_imported_is_a_failure_and_the_others_run(folder: Path) -> None:
    (folder / "test_c.py").write_text("import no_such_module")
    done = side_by_side(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "ModuleNotFoundError: No module named 'no_such_module'" in done.stdout
    assert all((folder / f"{name}.one").exists() for name in "abdef")


@pytest.mark.parametrize(("arguments", "count"), [((), 13), (("below/deeper",), 1)], ids=["all", "one folder"])
def test_files_find_what_their_folders_have_for_them(folder: Path, arguments: tuple[str, ...], count: int) -> None:
    (folder / "below" / "deeper").mkdir(parents=True)
    for place, name in (("below", "upper"), ("below/deeper", "lower")):
        fixture = f"import pytest\n@pytest.fixture\ndef {name}(): return '{name}'\n"
        (folder / place / "conftest.py").write_text(fixture)
    found = "def test_found(upper, lower): assert (upper, lower) == ('upper', 'lower')"
    (folder / "below" / "deeper" / "test_deeper.py").write_text(found)
    done = side_by_side(folder, *arguments)
    assert (done.returncode, sum(passed(done))) == (0, count), done.stdout


def test_a_warning_while_a_file_is_imported_is_an_error_where_warnings_are(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    (folder / "test_c.py").write_text("import warnings\nwarnings.warn('old')\ndef test_old(): pass")
    done = side_by_side(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "UserWarning: old" in done.stdout


def test_a_file_is_imported_by_the_run_that_has_taken_it(folder: Path) -> None:
    for name in "abcdef":
        with (folder / f"test_{name}.py").open("a") as file:
            file.write(f"with open('imported', 'a') as file: file.write('{name}')")
    done = side_by_side(folder)
    assert done.returncode == 0, done.stdout
    assert sorted((folder / "imported").read_text()) == list("abcdef")


@pytest.mark.parametrize("end", ["import os; os._exit(0)", "import pytest; pytest.exit('enough', returncode=0)"])
def test_a_run_that_ended_before_its_tests_did_is_a_failure(folder: Path, end: str) -> None:
    (folder / "test_c.py").write_text(f"def test_last(): {end}")
    done = side_by_side(folder)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "ended before its tests did" in done.stdout


@pytest.mark.usefixtures("no_other_place")
def test_temporary_files_lie_in_memory_and_go_with_the_run(script: Any, tmp_path: Path) -> None:
    script.MEMORY_BYTES_MIN = 0
    mine, user = str(os.getpid()), os.geteuid()
    with subprocess.Popen(["true"]) as dead:
        pass
    for pid in (dead.pid, os.getppid()):
        (tmp_path / f"headrace-tests-{user}-{pid}" / "store").mkdir(parents=True)
    with script.written_to(tmp_path):
        place = Path(tempfile.gettempdir())
        assert (place.parent, place.name.rpartition("-")[2]) == (tmp_path, mine)
        assert os.environ["TMPDIR"] == str(place)
        assert place.stat().st_mode & 0o7777 == 0o1777
        (place / "store").touch()
    assert "TMPDIR" not in os.environ
    assert [left.name for left in tmp_path.iterdir()] == [f"headrace-tests-{user}-{os.getppid()}"], "of one that lives"


@pytest.mark.usefixtures("no_other_place")
def test_memory_is_left_alone_where_it_is_short_or_another_place_is_named(script: Any, tmp_path: Path) -> None:
    def without(memory: Path) -> bool:
        with script.written_to(memory):
            return not tempfile.gettempdir().startswith(str(tmp_path))

    assert without(tmp_path / "missing")
    script.MEMORY_BYTES_MIN = 1 << 60
    assert without(tmp_path)
    script.MEMORY_BYTES_MIN = 0
    assert not without(tmp_path)
    os.environ["TMPDIR"] = tempfile.gettempdir()
    assert without(tmp_path)
    del os.environ["TMPDIR"]
