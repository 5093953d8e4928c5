"""Where the keeper of a rig is found and how it is spoken to: a lock, a Unix socket, and one JSON document per line.

Whoever holds the lock is the keeper. The lock ends with its process, however that ends, so that what a killed keeper
left behind (its socket, its log) stops nobody: the next one takes the lock and starts over.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core import errors
from headrace.core.errors import CallerError, HeadraceError, OperatorError
from headrace.testing.rig import places
from headrace.testing.rig.children import await_gone

ANSWER_S_MAX = 180.0
START_S_MAX = 30.0
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class KeeperPlace:
    """Where the keeper of the rig of this name is met."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise CallerError(f"{self.name!r} cannot name a rig", "up to 32 of a-z, 0-9, - and _")

    @property
    def folder(self) -> Path:
        return places.homes() / f"keeper-{self.name}"

    @property
    def socket(self) -> Path:
        return self.folder / "socket"

    @property
    def log(self) -> Path:
        return self.folder / "keeper.log"

    @property
    def lock(self) -> Path:
        return self.folder / "lock"


class KeeperEnding(Exception):
    """The keeper went away before it answered: nothing was done, and a new one will answer."""


def hold(place: KeeperPlace) -> int | None:
    """Become the keeper: the descriptor that holds the lock, or None if somebody else has it."""
    while True:
        place.folder.mkdir(mode=0o700, exist_ok=True)
        try:
            descriptor = os.open(place.lock, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        # The one before may have removed the file between our opening and our locking it.
        if holds(place, descriptor):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
            return descriptor
        os.close(descriptor)


def holds(place: KeeperPlace, descriptor: int) -> bool:
    """Whether this is the lock that others would meet: somebody may have cleaned up the directory."""
    try:
        return os.path.samestat(os.fstat(descriptor), place.lock.stat())
    except FileNotFoundError:
        return False


def leave(place: KeeperPlace, descriptor: int) -> None:
    """Be the keeper no more, and leave nothing."""
    if holds(place, descriptor):
        shutil.rmtree(place.folder, ignore_errors=True)
    os.close(descriptor)


def ask(place: KeeperPlace, request: Mapping[str, Any], say: Say) -> Any:
    """What the keeper answers; None if there is none. Errors that it tells are raised here."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(ANSWER_S_MAX)
        try:
            line.connect(str(place.socket))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        except OSError as error:
            raise OperatorError(f"{place.socket}: {error}", "a shorter TMPDIR may help") from error
        try:
            return _hear(line, request, say)
        except TimeoutError as error:
            pid = place.lock.read_text() if place.lock.exists() else "?"
            raise TimeoutError(f"the rig's keeper (process {pid}) does not answer; kill -9 {pid} ends it") from error
        except ConnectionError as error:
            raise KeeperEnding from error


def ask_or_start(place: KeeperPlace, request: Mapping[str, Any], say: Say) -> Any:
    """What the keeper answers; one is started if there is none."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        try:
            answer = ask(place, request, say)
        except KeeperEnding:
            answer = None
        if answer is not None:
            return answer
        # Of two that start at once one gets the lock and the other ends; both are then spoken to by the socket.
        _start(place)
        time.sleep(0.02)
    raise OperatorError("the rig's keeper goes away as soon as it is started", f"its log: {place.log}")


def await_end(place: KeeperPlace, pid: int) -> None:
    """Until a keeper that said it would end has ended, with all it had."""
    await_gone([pid])
    sweep(place)


def sweep(place: KeeperPlace) -> None:
    """Remove what a killed keeper left: its servers, their directories, its own."""
    places.clean()
    if place.folder.exists():
        descriptor = hold(place)
        if descriptor is not None:
            leave(place, descriptor)


def error_document(error: Exception) -> dict[str, str]:
    """An error as it is told over the line."""
    if isinstance(error, HeadraceError):
        return {"kind": type(error).__name__, "message": str(error), "hint": error.hint}
    return {"kind": "OperatorError", "message": f"{type(error).__name__}: {error}", "hint": ""}


def _hear(line: socket.socket, request: Mapping[str, Any], say: Say) -> Any:
    line.sendall(json.dumps(request).encode() + b"\n")
    with line.makefile("r", encoding="utf-8") as lines:
        for text in lines:
            told = json.loads(text)
            if "said" in told:
                say(told["said"])
            elif "error" in told:
                raise _error_of(told["error"])
            else:
                return told["answer"]
    raise KeeperEnding


def _error_of(told: Mapping[str, str]) -> HeadraceError:
    kind = getattr(errors, told["kind"], OperatorError)
    error: HeadraceError = kind(told["message"])
    error.hint = told["hint"]
    return error


def _start(place: KeeperPlace) -> None:
    """Start a keeper that stays when we are gone: it parts from us before it answers."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace.testing.rig.keeper", place.name],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    if done.returncode:
        raise OperatorError(f"the rig's keeper did not start:\n{done.stderr[-3_000:]}", f"its log: {place.log}")
