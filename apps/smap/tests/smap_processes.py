"""Processes for tests: our services by their commands, and those of somebody else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from headrace.services import Program
from headrace.testing import ServiceProcess

FOREIGN = Path(__file__).with_name("smap_foreign.py")
OURS = (sys.executable, "-m", "headrace", "smap")
READY_S_MAX = 180.0


class Town:
    """Services of one test, on the servers that its environment names."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self._running: list[ServiceProcess] = []

    def ours(self, name: str, **variables: str) -> ServiceProcess:
        """One of our services, by its command and on any port."""
        return self._ready(self.start([name], **variables))

    def foreign(self, name: str, **variables: str) -> ServiceProcess:
        return self._ready(self._start(name, [sys.executable, str(FOREIGN), name], variables))

    def start(self, words: Sequence[str], **variables: str) -> ServiceProcess:
        """A command of ours that goes on. `up` has its services' lines on its own standard output."""
        return self._start(words[0], [*OURS, *words], {"SMAP_HTTP_PORT": "0", **variables})

    def all(self, *names: str, **variables: str) -> list[ServiceProcess]:
        """Several of ours, started side by side."""
        return [self._ready(service) for service in [self.start([name], **variables) for name in names]]

    def run(self, *arguments: str, **variables: str) -> str:
        """One command of ours to its end; what it says."""
        command, environment = [*OURS, *arguments], {**self._environment, **variables}
        done = subprocess.run(command, env=environment, cwd=self._folder, capture_output=True, timeout=180)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def _start(self, name: str, command: Sequence[str], variables: Mapping[str, str]) -> ServiceProcess:
        program = Program(name, tuple(command), {**self._environment, **variables})
        log = self._folder / f"{len(self._running)}-{name}.log"
        self._running.append(ServiceProcess(program, log, self._folder))
        return self._running[-1]

    def _ready(self, service: ServiceProcess) -> ServiceProcess:
        service.line_with("ready").result(READY_S_MAX)
        return service

    def end(self) -> None:
        for service in self._running:
            service.kill()


@contextmanager
def town(environment: Mapping[str, str], folder: Path) -> Iterator[Town]:
    """Whatever is still running at the end is ended."""
    made = Town(environment, folder)
    try:
        yield made
    finally:
        made.end()
