"""Jars by Maven: kept only as they were pinned, whole, and fetched by one run at a time."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

from headrace.testing.rig.needs import MavenClosure

S_MAX = 300.0
RIGHT, OTHER = b"the jar that was pinned", b"another jar under its name"
# mvn lives for seconds: what a better compiler and collector would give is not earned back.
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
GET = """
import sys
from functools import partial
from pathlib import Path
from headrace.core.errors import HeadraceError
from headrace.testing.rig.installation import get
from headrace.testing.rig.needs import MavenClosure
try:
    print(get([MavenClosure("words", "1.0", Path(sys.argv[1]))], partial(print, flush=True)))
except HeadraceError as error:
    print(f"{error}\\n→ {error.hint}")
"""


class JarRuns:
    """Runs that fetch one jar from a Maven repository of the test's, into a cache of the test's."""

    def __init__(self, folder: Path) -> None:
        self._repository, self.cache = folder / "repository", folder / "cache"
        self._pins = folder / "words.txt"
        self._pins.write_text(
            f"# One jar.\nexample.invalid:words:1.0:linux {hashlib.sha256(RIGHT).hexdigest()}\n", "utf-8"
        )
        self.cache.mkdir()
        self.folder = MavenClosure("words", "1.0", self._pins).folder

    def publish(self, jar: bytes) -> None:
        place = self._repository / "example" / "invalid" / "words" / "1.0" / "words-1.0-linux.jar"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jar)

    def start(self) -> subprocess.Popen[str]:
        # The repository stays over the runs of a test, so that the plugin is fetched once.
        options = f"-Dmaven.repo.local={self._repository} {BRIEF}"
        named = {"HEADRACE_CACHE": str(self.cache), "MAVEN_OPTS": options}
        line = [sys.executable, "-c", GET, str(self._pins)]
        return subprocess.Popen(
            line, env={**os.environ, **named}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def get(self) -> str:
        return self.start().communicate(timeout=S_MAX)[0]

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if path.is_dir())

    @property
    def jar(self) -> Path:
        return self.cache / self.folder / "words-1.0-linux.jar"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> JarRuns:
    return JarRuns(tmp_path_factory.mktemp("jars"))


def test_a_jar_is_kept_only_as_it_was_pinned(runs: JarRuns) -> None:
    runs.publish(OTHER)
    assert "words: not what was pinned: example.invalid:words:1.0:linux\n→ somebody changed them" in runs.get()
    assert runs.folders() == []

    runs.publish(RIGHT)
    assert runs.get().endswith("\n1\n")
    assert (runs.folders(), runs.jar.read_bytes()) == ([runs.folder], RIGHT)
    assert runs.get() == "0\n"


def test_a_damaged_jar_is_fetched_again_once_also_after_a_killed_run(runs: JarRuns) -> None:
    runs.jar.write_bytes(OTHER[: len(RIGHT)])
    killed = runs.start()
    until(lambda: list(runs.cache.glob(".maven-*/pom.xml")), "mvn is at it", S_MAX)
    killed.send_signal(signal.SIGKILL)
    assert f"{runs.jar.parent} is words damaged, the rig needs 1.0" in killed.communicate()[0]
    assert not runs.jar.exists()

    both = [runs.start(), runs.start()]
    said = [run.communicate(timeout=S_MAX)[0] for run in both]
    assert [text.splitlines()[-1] for text in said] == ["1", "1"]
    assert sum(text.count("words 1.0: fetched in") for text in said) == 1
    assert (runs.folders(), runs.jar.read_bytes()) == ([runs.folder], RIGHT)
