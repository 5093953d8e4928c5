"""`headrace scheduler up` as a process, and what it says."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from waiting import until

UP_S_MAX = 240.0
STOP_S_MAX = 60.0


class UpRun:
    """Its lines are in a file, so nobody has to read them in time."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *options: str) -> None:
        self._out, self._errors = folder / "up.out", folder / "up.errors"
        with self._out.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "scheduler", "up", *options],
                env={"PATH": os.environ["PATH"], "HOME": str(folder), "WORKER_HTTP_PORT": "0", **environment},
                cwd=folder,
                stdout=out,
                stderr=errors,
            )

    @property
    def lines(self) -> list[str]:
        return self._out.read_text("utf-8").splitlines()

    def wait_for(self, words: str) -> str:
        def found() -> str | None:
            assert self.process.poll() is None, self._errors.read_text("utf-8")
            return next((line for line in self.lines if words in line), None)

        return until(found, lambda: f"{words!r} in {self.lines}: {self._errors.read_text('utf-8')}", UP_S_MAX)

    @property
    def exported(self) -> dict[str, str]:
        words = [shlex.split(line)[1] for line in self.lines if line.startswith("export ")]
        return dict(word.split("=", 1) for word in words)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_S_MAX)


@contextmanager
def up(folder: Path, environment: Mapping[str, str], *options: str) -> Iterator[UpRun]:
    run = UpRun(folder, environment, *options)
    try:
        yield run
    finally:
        if run.process.poll() is None:
            run.stop()
