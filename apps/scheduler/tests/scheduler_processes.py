"""Services of the scheduler as real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from waiting import until

READY_S_MAX = 60.0


class Process:
    """One service by its command, on any port."""

    def __init__(self, name: str, environment: Mapping[str, str], folder: Path) -> None:
        self._log = (folder / f"{name}-{len(list(folder.glob('*.log')))}.log").open("wb")
        command = [sys.executable, "-m", "headrace", "scheduler", name, "--port", "0"]
        self.process = subprocess.Popen(
            command, env=dict(environment), cwd=folder, stdout=subprocess.PIPE, stderr=self._log
        )
        self._lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.append(line.decode().strip())

    @property
    def url(self) -> str:
        def ready() -> str | None:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: see {self._log.name}"
            return next((line.rpartition(" ")[2] for line in self._lines if "ready at" in line), None)

        return until(ready, f"{self.process.args!r} is ready", READY_S_MAX)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=30.0)

    def post(self, path: str, document: Any = None, **headers: str) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=document, headers=headers, timeout=30.0)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(30.0)
        finally:
            self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reading.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


@contextmanager
def services(environment: Mapping[str, str], folder: Path, *names: str) -> Iterator[list[Process]]:
    """Started side by side; whatever still runs at the end is ended."""
    started = [Process(name, environment, folder) for name in names]
    try:
        for each in started:
            assert each.url
        yield started
    finally:
        for each in started:
            each.end()
