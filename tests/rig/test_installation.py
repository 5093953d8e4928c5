"""Getting what is missing: once, whole, and otherwise with the exact line to run."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import until

from headrace.testing.rig import golang
from headrace.testing.rig.catalogue import SERVERS, TOOLS, needs_of
from headrace.testing.rig.doctor import examine, surroundings
from headrace.testing.rig.needs import DebianPackage, GoProgram, JavaRuntime, MavenClosure, PythonWheel

ROOT = Path(__file__).resolve().parents[2]
S_MAX = 120.0
QUICK_S_MAX = 0.5
NOBODY = 65534
# As an ordinary user, also where the tests run as root: imports first, because nobody may not read our Python.
GET = """
import os, sys
from pathlib import Path
from headrace.core.errors import HeadraceError
from headrace.testing.rig.needs import BareWheel, DebianPackage, GoFile, GoProgram, PythonWheel, WheelFile
from headrace.testing.rig.installation import get
if os.environ.get("AS") and os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(os.environ["AS"]))
    os.setuid(int(os.environ["AS"]))
try:
    print(get(eval(sys.argv[1]), print))
except HeadraceError as error:
    print(f"{error}\\n→ {error.hint}")
"""
OBTAIN = """
import time
from headrace.testing.rig.installation import obtain
since = time.monotonic()
print(obtain(), time.monotonic() - since)
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A place that everybody may enter, with a module proxy in it and a Go."""
    place = Path(tempfile.mkdtemp(prefix="headrace-installation-"))
    place.chmod(0o755)
    module = place / "proxy" / "example.invalid" / "words" / "@v"
    module.mkdir(parents=True)
    (module / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
    (module / "v1.0.0.mod").write_text("module example.invalid/words\n")
    with zipfile.ZipFile(module / "v1.0.0.zip", "w") as archive:
        archive.writestr("example.invalid/words@v1.0.0/go.mod", "module example.invalid/words\n")
        archive.writestr("example.invalid/words@v1.0.0/kept/words.txt", "in the beginning\n")
    tiny = place / "tiny"
    tiny.mkdir()
    (tiny / "go.mod").write_text("module example.invalid/tiny\n\ngo 1.24\n\ntool example.invalid/tiny\n")
    (tiny / "main.go").write_text('package main\n\nfunc main() { println("tiny") }\n')
    (place / "go").symlink_to(golang.provide(place, (1, 24), print).parent)
    yield place
    shutil.rmtree(place)


@pytest.fixture
def cache(folder: Path) -> Iterator[Path]:
    place = folder / "cache"
    place.mkdir()
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def start(cache: Path, needs: str, **variables: str) -> subprocess.Popen[str]:
    """A run of its own that gets these parts into this cache."""
    return subprocess.Popen(
        [sys.executable, "-c", GET, needs],
        env={
            **os.environ,
            "HEADRACE_CACHE": str(cache),
            "GOPROXY": f"file://{cache.parent}/proxy",
            "PATH": f"{cache.parent}/go:{os.environ['PATH']}",
            "TMPDIR": tempfile.gettempdir(),
            **variables,
        },
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def get(cache: Path, needs: str, **variables: str) -> str:
    return start(cache, needs, **variables).communicate(timeout=S_MAX)[0]


def words(checksum: str) -> str:
    return f"GoFile('words', '1.0.0', 'example.invalid/words@v1.0.0', 'kept/words.txt', {checksum!r})"


def folders(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def makers(cache: Path) -> list[int]:
    """The living processes that make something for this cache."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"GOCACHE={cache}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def checksum(folder: Path) -> str:
    """The one of the module in the proxy, as the refusal of a wrong one tells it."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        said = get(Path(place), f"[{words('h1:wrong=')}]")
        assert folders(Path(place)) == []
    return said.split("has checksum ")[1].split(",")[0]


def test_a_killed_build_harms_nobody_and_two_at_once_build_one_time(cache: Path) -> None:
    tiny = f"[GoProgram('tiny', '1.0', Path({str(cache.parent / 'tiny')!r}))]"
    killed = start(cache, tiny)
    until(lambda: list(cache.glob(".go-*/cache/*/*")) and makers(cache), "a build is under way", S_MAX)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    until(lambda: not makers(cache), "the children of the killed run have ended", 20.0)
    assert not (cache / "tiny-1.0").exists()
    assert list(cache.glob(".go-*/")) != []

    both = [start(cache, tiny), start(cache, tiny)]
    said = [run.communicate(timeout=S_MAX)[0] for run in both]
    assert [text.splitlines()[-1] for text in said] == ["1", "1"]
    assert sum(text.count("tiny 1.0: made in") for text in said) == 1
    assert sum(text.count("waiting for another run") for text in said) == 1
    assert folders(cache) == ["tiny-1.0"]
    ran = subprocess.run([cache / "tiny-1.0" / "tiny"], capture_output=True, text=True, check=True)
    assert ran.stderr == "tiny\n"


def test_a_file_of_a_module_is_kept_only_if_the_checksum_is_right(cache: Path, checksum: str) -> None:
    assert checksum.startswith("h1:")
    assert get(cache, f"[{words(checksum)}]").endswith("\n1\n")
    assert (cache / "words-1.0.0" / "words.txt").read_text() == "in the beginning\n"
    assert get(cache, f"[{words(checksum)}]") == "0\n"


def write_wheel(folder: Path, name: str, wants: str = "") -> Path:
    wheel, told = folder / f"{name}-1.0.0-py3-none-any.whl", f"{name}-1.0.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}/words.txt", "in the beginning\n")
        archive.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n{wants}")
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{told}/RECORD", "")
    return wheel


def test_a_bare_wheel_is_installed_without_what_it_asks_for(cache: Path) -> None:
    write_wheel(cache.parent, "bare", "Requires-Dist: nowhere-to-be-found\n")
    site = cache / "site"
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(cache.parent), "PIP_TARGET": str(site), "PYTHONPATH": str(site)}
    assert "nowhere-to-be-found" in get(cache, "[PythonWheel('bare', '1.0', 'bare')]", **pip)
    assert get(cache, "[BareWheel('bare', '1.0', 'bare')]", **pip).endswith("\n1\n")
    assert (site / "bare" / "words.txt").exists()


def test_a_file_of_a_wheel_is_kept_only_if_the_checksum_is_right(cache: Path) -> None:
    wheel = write_wheel(cache.parent, "words")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(cache.parent)}
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    need = "[WheelFile('words', '1.0.0', 'words==1.0.0', 'words/words.txt', {!r})]"
    said = get(cache, need.format("0" * 64), **pip)
    assert "pip could not fetch words==1.0.0" in said
    assert folders(cache) == []
    assert get(cache, need.format(right), **pip).endswith("\n1\n")
    assert (cache / "words-1.0.0" / "words.txt").read_text() == "in the beginning\n"
    assert get(cache, need.format(right), **pip) == "0\n"


def test_what_was_damaged_is_noticed_and_made_again(cache: Path, checksum: str) -> None:
    get(cache, f"[{words(checksum)}]")
    kept = cache / "words-1.0.0" / "words.txt"
    for damage in ("in the", "In the beginning\n", None):
        if damage is None:
            kept.with_name("words.txt.sha256").unlink()
        else:
            kept.write_text(damage)
        said = get(cache, f"[{words(checksum)}]")
        assert f"{kept} is words damaged, the rig needs 1.0.0" in said
        assert said.endswith("\n1\n")
        assert kept.read_text() == "in the beginning\n"


def test_without_root_one_line_for_all_packages_is_told_and_the_rest_is_got(cache: Path, checksum: str) -> None:
    missing = [f"DebianPackage('headrace-none-{letter}', '1', 'headrace-none-{letter}')" for letter in "ba"]
    said = get(cache, f"[{', '.join([*missing, words(checksum)])}]", AS=str(NOBODY))
    *_, message, line = said.splitlines()
    assert message == "not on this machine: headrace-none-a, headrace-none-b"
    expected = "sudo apt-get install -y --no-install-recommends headrace-none-a headrace-none-b"
    assert line.removeprefix("→ ").removeprefix("sudo apt-get update && ") == expected
    assert (cache / "words-1.0.0" / "words.txt").exists()


def test_where_there_is_no_apt_the_programs_are_named(cache: Path) -> None:
    said = get(cache, "[DebianPackage('headrace-none', '7.0', 'headrace-none-server')]", PATH=str(cache))
    assert said.splitlines()[-2:] == [
        "this machine has no apt-get: the rig cannot install here",
        "→ install by hand: headrace-none-server (headrace-none 7.0)",
    ]


def test_a_version_that_does_not_fit_is_named_and_not_used() -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert DebianPackage("python3", here, sys.executable).found() == Path(sys.executable)
    assert DebianPackage("python3", "3.0", sys.executable).found() == Path(sys.executable)
    for other in ("2.7", "3.99", "4"):
        need = DebianPackage("python3", other, sys.executable)
        assert need.found() is None
        assert need.complaint().startswith(f"{sys.executable} is python3 {here}.")
        assert need.complaint().endswith(f", the rig needs {other}")
    assert PythonWheel("pytest", "1.0", "pytest").found() is None
    assert DebianPackage("x", "1", "headrace-none").complaint() == "x 1 is not on this machine"


def test_nothing_missing_is_known_quickly() -> None:
    took: list[float] = []
    while not took or (min(took) > QUICK_S_MAX and len(took) < 5):
        done = subprocess.run([sys.executable, "-c", OBTAIN], capture_output=True, text=True, check=True)
        count, seconds = done.stdout.split()
        assert (count, done.stderr) == ("0", "")
        took.append(float(seconds))
    assert min(took) < QUICK_S_MAX


def test_the_doctor_finds_every_part_with_its_version() -> None:
    findings = examine()
    assert {finding.name for finding in findings} == {*SERVERS, *TOOLS}
    assert [finding for finding in findings if not finding.fine or not finding.version or not finding.place] == []
    assert [finding for finding in surroundings() if not finding.fine] == []


def test_the_java_of_the_package_is_found_whatever_java_is_first() -> None:
    packaged = sorted(Path("/usr/lib/jvm").glob("java-17-openjdk-*/bin/java"))
    assert JavaRuntime("openjdk-17-jre-headless", "17", "headrace-none").found() == next(iter(packaged), None)


def test_programs_are_pinned_with_checksums_and_shipped(tmp_path: Path) -> None:
    needs = [need for name in SERVERS for need in needs_of(name)]
    closures = [need for need in needs if isinstance(need, MavenClosure)]
    roots = {"cassandra": "org.apache.cassandra:cassandra-all", "kafka": "org.apache.kafka:kafka_2.13"}
    assert [need.name for need in closures] == list(roots)
    for closure in closures:
        pinned = {jar.coordinates: jar.checksum for jar in closure.jars()}
        assert f"{roots[closure.name]}:{closure.version}" in pinned
        assert [jar for jar, checksum in pinned.items() if len(checksum) != 64] == []
    programs = [need for need in needs if isinstance(need, GoProgram)]
    assert [need.name for need in programs] == ["versitygw"]
    for need in programs:
        assert f"/{need.name} v{need.version} " in (need.module / "go.mod").read_text()
        assert f"/{need.name} v{need.version} h1:" in (need.module / "go.sum").read_text()
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(line, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert {f"headrace/testing/rig/go/{name}" for name in ("versitygw/go.mod", "versitygw/go.sum")} <= shipped
    assert {f"headrace/testing/rig/jars/{name}.txt" for name in roots} <= shipped
    assert "headrace/testing/rig/go/toolchain.txt" in shipped
