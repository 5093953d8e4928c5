"""Servers that run on Java: their classes are read and checked once, and mapped into memory from then on.

Java writes them into an archive when it ends. The first start of a server makes one by a start of its own, and keeps it
in the cache; every later start takes a quarter of the CPU less. Java compares it with the jars and itself, and does
without one that does not fit.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

from headrace.testing.rig.cached import cached
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import JavaRuntime, MavenClosure
from headrace.testing.rig.server import Server

ARCHIVE = "classes.jsa"
HEAP = "heap"
HEAP_DEFAULT = "256m"
OPTIONS = (
    "-Xms32m",
    "-Xss512k",
    # It lives for minutes: what a better compiler and collector would give is not earned back.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)


class JavaServer(Server):
    """The setting `heap` is how large the heap may become, `256m` if not given."""

    jars: ClassVar[MavenClosure]
    java: ClassVar[JavaRuntime]
    user = "nobody"

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(settings)
        self._new_archive: Path | None = None

    def java_line(self, heap: str, *options: str) -> list[str]:
        """How every program out of the jars is started; its name follows."""
        jars = f"{self.jars.path()}/*"
        return [str(self.java.path()), f"-Xmx{heap}", *OPTIONS, f"-Djava.io.tmpdir={self.home}", *options, "-cp", jars]

    @property
    def is_archiving(self) -> bool:
        """Whether it is started to write the archive only: Java allows no agents then."""
        return self._new_archive is not None

    def archive_options(self) -> list[str]:
        """Use the archive of the server's classes, or write it, if that is what this start is for."""
        if self._new_archive is not None:
            return [f"-XX:ArchiveClassesAtExit={self._new_archive}"]
        release = self.java.version_at(self.java.path())
        archive = cached(f"{self.jars.folder}-classes-{release}", self._archive_classes) / ARCHIVE
        return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []

    def _archive_classes(self, folder: Path) -> None:
        archive, ours = folder / ARCHIVE, (os.geteuid(), os.getegid())
        self.hand_over(folder)
        with self._another(archive) as server:
            server.stop()
            if not server.ended_politely:
                # It had no time to write all of it: on a machine like that it is done without.
                archive.unlink(missing_ok=True)
        # What everybody runs from now on is nothing that a server may write to.
        for path in (folder, *folder.iterdir()):
            os.chown(path, *ours)

    def _another(self, archive: Path) -> Self:
        other = type(self)()
        other._new_archive = archive
        return other

    def _launch(self, command: Sequence[str]) -> Launch:
        # A polite end takes seconds, and nobody waits for it when the run is dead.
        return replace(super()._launch(command), death=signal.SIGKILL)
