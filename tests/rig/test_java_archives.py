"""The classes of a server on Java are read once, and mapped from the cache from then on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.testing.rig.java import ARCHIVE, JavaServer
from headrace.testing.rig.kafka import JAVA
from headrace.testing.rig.needs import MavenClosure


class Sleeper(JavaServer):
    """Not Java, but started and stopped as if: what it leaves behind is written by its `stop`."""

    name: ClassVar[str] = "sleeper"
    java = JAVA
    user = None
    starts: ClassVar[list[bool]] = []
    end: ClassVar[signal.Signals] = signal.SIGTERM

    @property
    def url(self) -> str:
        return "sleeper:"

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        self.starts.append(self.is_archiving)
        self.line = self.archive_options()
        return ["sleep", "600"]

    def ask(self) -> None:
        """It sleeps."""

    def stop(self) -> None:
        if self.is_archiving:
            Path(self.line[0].partition("=")[2]).write_bytes(b"classes")
        self._end(self.end)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    """A cache of its own, and the pins of no jars at all."""
    before = os.environ.get("HEADRACE_CACHE")
    os.environ["HEADRACE_CACHE"] = str(tmp_path / "cache")
    (tmp_path / "pins").write_text("# none\n")
    Sleeper.jars, Sleeper.end = MavenClosure("sleeper", "1", tmp_path / "pins"), signal.SIGTERM
    Sleeper.starts.clear()
    yield tmp_path / "cache"
    del os.environ["HEADRACE_CACHE"]
    if before is not None:
        os.environ["HEADRACE_CACHE"] = before


def test_the_first_start_makes_the_archive_and_the_others_use_it(cache: Path) -> None:
    for _ in range(2):
        with Sleeper() as server:
            (option,) = server.line
            archive = Path(option.removeprefix("-XX:SharedArchiveFile="))
            assert (archive.read_bytes(), archive.stat().st_uid) == (b"classes", os.geteuid())
    assert Sleeper.starts == [False, True, False], "one of three is for the archive"


def test_an_archive_that_was_cut_short_is_not_kept(cache: Path) -> None:
    Sleeper.end = signal.SIGKILL
    with Sleeper() as server:
        assert server.line == []
    assert not list(cache.rglob(ARCHIVE))
