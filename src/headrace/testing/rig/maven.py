"""Programs that come as jars: a closure of Maven artefacts, each pinned with its checksum in `jars/<name>.txt`.

`mvn` fetches them as the user has set it up (settings, mirrors, proxies), into a repository that is thrown away: what
is kept is one directory of jars. Every jar is compared with its pin before the directory gets its place. What `mvn`
itself fetches to be able to do so, its plugin, is not pinned by us.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from signal import SIGKILL
from xml.sax.saxutils import escape

from headrace.core.errors import OperatorError
from headrace.testing.rig import children, packages, places
from headrace.testing.rig.cached import cached
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import DebianPackage, Jar, MavenClosure
from headrace.testing.rig.turns import Tell, turn

# Looked for only when something is to be fetched.
MAVEN = DebianPackage("maven", "", "mvn")
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
WORKSHOP = ".maven-"
# A minute on a good line.
FETCH_S_MAX = 3_600.0
# Maven 3.8 writes colours also where nobody sees them.
OPTIONS = ("--batch-mode", "--quiet", "-Dstyle.color=never")


def fetch(needs: Sequence[MavenClosure], tell: Tell) -> None:
    """Fetch what is missing of these and put it into the cache; what another run fetched meanwhile is left alone."""
    if MAVEN.found() is None:
        packages.install([MAVEN], tell)
    with turn(places.cache() / ".maven.lock", tell):
        # Nobody else is at it while we hold the lock, so these are of runs that were killed.
        for left in places.cache().glob(f"{WORKSHOP}*/"):
            shutil.rmtree(left, ignore_errors=True)
        for need in (need for need in needs if need.found() is None):
            since = time.monotonic()
            tell(f"{need.name} {need.version}: fetching {len(need.jars())} jars with {MAVEN.path()}")
            # It is not fit for use, whatever is there.
            shutil.rmtree(places.cache() / need.folder, ignore_errors=True)
            cached(need.folder, partial(_fill, need))
            tell(f"{need.name} {need.version}: fetched in {time.monotonic() - since:.0f} s")


def _fill(need: MavenClosure, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=places.cache()) as place:
        workshop = Path(place)
        (workshop / "pom.xml").write_text(_project(need.jars(), folder))
        # Unlike an argument it gives way to MAVEN_OPTS: whoever has named a repository of their own there keeps it.
        options = workshop / ".mvn" / "jvm.config"
        options.parent.mkdir()
        options.write_text(f"-Dmaven.repo.local={workshop}/repository\n")
        command = (str(MAVEN.path()), *OPTIONS, f"{PLUGIN}:copy")
        try:
            children.run(Launch(command, os.environ, workshop, death=SIGKILL), FETCH_S_MAX)
        except OperatorError as error:
            raise OperatorError(f"mvn could not fetch {need.name}: {error}", need.command()) from error
    changed = [jar.coordinates for jar in need.jars() if not jar.is_whole(folder)]
    if changed:
        message = f"{need.name}: not what was pinned: {', '.join(changed)}"
        raise OperatorError(message, "somebody changed them: look at the mirrors in Maven's settings")


def _project(jars: Sequence[Jar], folder: Path) -> str:
    """A project that copies these jars and asks for nothing else."""
    group, artifact, version = PLUGIN.split(":")
    names = ("groupId", "artifactId", "version", "classifier")
    wanted = [_elements(zip(names, jar.coordinates.split(":"), strict=False)) for jar in jars]
    items = "\n".join(f"<artifactItem>{item}</artifactItem>" for item in wanted)
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>headrace</groupId><artifactId>rig</artifactId><version>1</version><packaging>pom</packaging>\n"
        f"<build><plugins><plugin>{_elements(zip(names, (group, artifact, version), strict=False))}<configuration>\n"
        f"<outputDirectory>{escape(str(folder))}</outputDirectory>\n"
        f"<artifactItems>\n{items}\n</artifactItems>\n</configuration></plugin></plugins></build></project>\n"
    )


def _elements(pairs: zip[tuple[str, str]]) -> str:
    return "".join(f"<{name}>{escape(text)}</{name}>" for name, text in pairs)
