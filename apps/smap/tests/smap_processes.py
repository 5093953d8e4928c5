"""Processes for tests: our services by their commands, and those of somebody else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from waiting import until

FOREIGN = Path(__file__).with_name("smap_foreign.py")
READY_S_MAX = 60.0
STOP_S_MAX = 20.0


class Running:
    """A process whose lines are read as they come."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        self._log = (folder / f"{len(list(folder.glob('*.log')))}-{command[-1]}.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, *command],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode().strip())

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: see {self._log.name}"
            return any("ready" in line for line in self.lines)

        until(ready, f"{self.process.args!r} is ready", READY_S_MAX)

    @property
    def url(self) -> str:
        """Where one of our services listens."""
        return next(line for line in self.lines if "ready at" in line).rpartition(" ")[2]

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def stop(self) -> int:
        """Ask politely; the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_S_MAX)
        finally:
            self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reading.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()


class Town:
    """Services of one test, on the servers that its environment names."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        self._environment, self._folder = environment, folder
        self.running: list[Running] = []

    def ours(self, name: str, **variables: str) -> Running:
        """One of our services, by its command and on any port."""
        return self._start(["-m", "headrace", "smap", name], {"SMAP_HTTP_PORT": "0", **variables})

    def foreign(self, name: str, **variables: str) -> Running:
        return self._start([str(FOREIGN), name], variables)

    def start_up(self) -> Running:
        """`headrace smap up`, which has its services' lines on its own standard output."""
        return self._start(["-m", "headrace", "smap", "up"], {"SMAP_HTTP_PORT": "0"}, wait=False)

    def children_named(self, name: str, parent: int) -> list[int]:
        """Processes of one of our services below a parent."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                below = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if below == parent and words[3:5] == [b"smap", name.encode()]:
                found.append(int(folder.name))
        return found

    def all(self, *names: str, **variables: str) -> list[Running]:
        """Several of ours, started side by side."""
        started = [
            self._start(["-m", "headrace", "smap", name], {"SMAP_HTTP_PORT": "0", **variables}, wait=False)
            for name in names
        ]
        for service in started:
            service.wait_ready()
        return started

    def run(self, *arguments: str, **variables: str) -> str:
        """One command of ours to its end; what it says."""
        command, environment = (
            [sys.executable, "-m", "headrace", "smap", *arguments],
            {**self._environment, **variables},
        )
        done = subprocess.run(command, env=environment, cwd=self._folder, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def _start(self, command: Sequence[str], variables: Mapping[str, str], wait: bool = True) -> Running:
        service = Running(command, {**self._environment, **variables}, self._folder)
        self.running.append(service)
        if wait:
            service.wait_ready()
        return service


@contextmanager
def town(environment: Mapping[str, str], folder: Path) -> Iterator[Town]:
    """Whatever is still running at the end is ended."""
    made = Town(environment, folder)
    try:
        yield made
    finally:
        for service in made.running:
            if not service.process.stdout or not service.process.stdout.closed:
                service.end()
