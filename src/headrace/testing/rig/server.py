"""A handle on one real server: start it, break it, stop it.

A server is a child process with a directory, ports and a log of its own. What differs from server to server is small:
the command, the one request that proves it answers, and what must be written before its first start.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from headrace.core.errors import CallerError, OperatorError
from headrace.testing.rig import children, places, ports
from headrace.testing.rig.children import Launch, ServerOwner
from headrace.testing.rig.needs import Need
from headrace.testing.rig.proxy import Proxy

READY_S_MAX = 180.0
STOP_S_MAX = 30.0
LOG_TAIL = 3_000


class Server(ABC):
    """One server on one directory. `start` may follow `stop` or `kill`: the data stays until `remove`.

    Settings given at construction hold for every start, those given to `start` for that one.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[Need, ...]] = ()
    user: ClassVar[str | None] = None
    """Whom it runs as when we are root; None: as ourselves."""
    polite: ClassVar[signal.Signals] = signal.SIGTERM
    """How it is asked to stop."""
    remark: ClassVar[str] = ""
    """What its users must know; shown beside its version."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        for need in self.needs:
            need.path()
        self._owner = _account(self.user)
        self.home = places.new_home(self.name, self._owner)
        self.settings = dict(settings or {})
        self._ports: list[int] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._members: dict[int, int] = {}
        self._prepared = False
        self.port = self.reserve_port()

    @property
    @abstractmethod
    def url(self) -> str:
        """How a client reaches it."""

    @abstractmethod
    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        """The command line that runs it in the foreground."""

    @abstractmethod
    def ask(self) -> None:
        """One real request; raises OSError as long as there is no good answer."""

    def prepare(self) -> None:  # noqa: B027 - most servers have nothing to prepare
        """What must be there before the first start."""

    def variables(self, url: str) -> dict[str, str]:
        """The environment variables that lead a program to it by this URL, which may be that of a proxy."""
        return {f"{self.name.upper()}_URL": url}

    def new_proxy(self, url: str | None = None) -> Proxy:
        """A proxy before it, not open yet; `url` is a longer one of its own, such as that of a database."""
        return Proxy(url or self.url)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LC_ALL": "C.UTF-8",
        }

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def ended_politely(self) -> bool:
        """Whether it has ended, and not because it was killed."""
        return self._child is not None and self._child.poll() not in (None, -signal.SIGKILL)

    @property
    def pid(self) -> int:
        assert self._child is not None, f"{self.name} was never started"
        return self._child.pid

    def start(self, settings: Mapping[str, str] | None = None) -> Self:
        """Start (again) on the same data and ports; returns when it answers."""
        if self.running:
            raise CallerError(f"{self.name} runs already", "restart() it, or stop() it first")
        # If it died by itself, its children may not have.
        self.kill()
        if not self._prepared:
            self.prepare()
            self._prepared = True
        with (self.home / places.LOG).open("ab") as log:
            launch = self._launch(self.command({**self.settings, **(settings or {})}))
            self._child = children.spawn(launch, log)
        try:
            places.note(self.home, [self.pid])
            self.wait_ready()
            self._members = children.identities(self._family())
            places.note(self.home, list(self._members))
        except BaseException:
            self.kill()
            raise
        return self

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> None:
        """Until the server answers a real request."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self.ask()
            except OSError as error:
                if not self.running or time.monotonic() > deadline:
                    raise self._did_not_start(error) from error
            time.sleep(0.02)

    def stop(self) -> None:
        """Ask it to stop and wait until it has."""
        self._end(self.polite)

    def kill(self) -> None:
        """SIGKILL the server and all its children, as a power cut of this one service would."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Stop politely and start again."""
        self.stop()
        return self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        if self.running:
            children.freeze(self.pid)

    def resume(self) -> None:
        children.signal_all(self._family()[::-1], signal.SIGCONT)

    def remove(self) -> None:
        """Kill it and forget everything."""
        self.kill()
        for port in self._ports:
            ports.give_back(port)
        self._ports.clear()
        places.forget(self.home)

    def log(self) -> str:
        path = self.home / places.LOG
        return path.read_text(errors="replace") if path.exists() else ""

    def memory(self) -> int:
        """The bytes it uses, with all its children."""
        return children.memory(self._family())

    def reserve_port(self) -> int:
        """One more port of its own, until `remove`."""
        port = ports.reserve_port()
        self._ports.append(port)
        return port

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """A file in its home that the server may read."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        self.hand_over(path)
        return path

    def hand_over(self, path: Path) -> None:
        """Give a file or directory to the user the server runs as."""
        if self._owner is not None:
            os.chown(path, self._owner.uid, self._owner.gid)

    def run(self, *command: str) -> str:
        """Run a short program of the server's, as its user and in its surroundings."""
        return children.run(self._launch(command))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()

    def _end(self, number: signal.Signals) -> None:
        if self._child is None:
            return
        if self.running and number is signal.SIGKILL:
            # Frozen first: a child born between looking and killing would be an orphan that nobody knows.
            self._members |= children.identities(children.freeze(self.pid))
        elif self.running:
            self._members |= children.identities(self._family())
            self._child.send_signal(number)
            # A frozen server would not hear it.
            self.resume()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(STOP_S_MAX)
        else:
            self._members |= children.identities(places.writers_of(self.home / places.LOG))
        # What did not follow its parent would hold the port or the data when the server comes back.
        left = children.alive_of(self._members)
        children.signal_all(left, signal.SIGKILL)
        self._child.wait(STOP_S_MAX)
        children.await_gone(left)
        self._members = {}
        places.note(self.home, [])

    def _family(self) -> list[int]:
        """Its processes now. The pid of one that has ended may be somebody else's."""
        return children.family(self.pid) if self.running else []

    def _launch(self, command: Sequence[str]) -> Launch:
        return Launch(command, self.environment(), self.home, self._owner, self.polite)

    def _did_not_start(self, error: OSError) -> OperatorError:
        kept = places.keep_log(self.home)
        state = "does not answer" if self.running else "ended"
        return OperatorError(f"{self.name} {state} ({error}):\n{self.log()[-LOG_TAIL:]}", f"its whole log: {kept}")


def _account(user: str | None) -> ServerOwner | None:
    if user is None or os.geteuid() != 0:
        return None
    found = pwd.getpwnam(user)
    return ServerOwner(found.pw_uid, found.pw_gid)
