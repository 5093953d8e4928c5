"""All four services as processes of one parent, on servers of the environment or of the rig.

A service that ends by itself is started again, slower each time; when the parent ends, all end with it. What does not
get better by itself, a setting that is refused or a port that is taken, ends all at once. When all are ready for the
first time, it is told where the reports are and how other commands find the same data.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.commands import Exit
from headrace.errors import CallerError, HeadraceError, MissingExtra, OperatorError
from headrace_smap.serving import NAMES
from headrace_smap.settings import HTTP_PORTS, leads_to_project, load

STOP_S_MAX = 20.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
STEADY_S = 30.0
LOOK_S = 0.1
PORTS_END = 65_536
PIECE_BYTES = 65_536
"""As much as a pipe holds: one look takes all that a service has said before its end."""
REPORT_URL = "SMAP_REPORT_URL"
EVERYWHERE = ("0.0.0.0", "::")
"""Hosts to listen on that are no address to go to."""
_PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


@dataclass(slots=True)
class Child:
    """A service's process, when it may be started again, and where it was ready, if it ever was."""

    name: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_s: float = PAUSE_S_MIN
    due_at: float = field(default_factory=time.monotonic)
    refused: bool = False
    url: str = ""
    unsaid: bytes = b""


@dataclass(frozen=True, slots=True)
class Talk:
    """`say` is for what happens on the way, `tell` for lines that somebody may read by a program."""

    say: Say
    tell: Say


def up_all(rig: bool, environment: Mapping[str, str], talk: Talk) -> int:
    """Run the services until a signal; the exit code."""
    ports = _ports(environment)
    with ExitStack() as stack:
        shared = {"SMAP_HOME": environment.get("SMAP_HOME") or "smap-data"}
        if rig:
            shared.update(stack.enter_context(_servers(talk.say)))
        stopped = stack.enter_context(_asked_to_stop())
        variables = {**environment, **shared, **report_url(environment, ports[-1])}
        children = [Child(name, port) for name, port in zip(NAMES, ports, strict=True)]
        try:
            told = False
            while not stopped:
                _tend(children, variables, talk)
                if any(child.refused for child in children):
                    return Exit.USAGE
                if not told and all(child.url for child in children):
                    told = True
                    _tell_where(children[-1].url, shared, talk.tell)
                time.sleep(LOOK_S)
        finally:
            _end(children, stopped, talk.tell)
    return Exit.OK


def _tend(children: list[Child], variables: Mapping[str, str], talk: Talk) -> None:
    now = time.monotonic()
    for child in children:
        if child.process is not None:
            code = child.process.poll()
            _hear(child, talk.tell)
            if code == Exit.USAGE:
                # It has said which setting it cannot work with; that does not change by itself.
                child.process, child.refused = None, True
                continue
            if code is not None:
                child.process = None
                if not child.url:
                    _check_port(child, load(variables).http_host)
                if now - child.started_at > STEADY_S:
                    child.pause_s = PAUSE_S_MIN
                talk.say(f"smap {child.name} ended with {code}; again in {child.pause_s:g} s")
                child.due_at = now + child.pause_s
                child.pause_s = min(PAUSE_S_MAX, child.pause_s * 2)
        if child.process is None and now >= child.due_at:
            _start(child, variables)
            child.started_at = now


def _start(child: Child, variables: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", "headrace", "smap", child.name, "--port", str(child.port)]
    child.process = subprocess.Popen(
        command,
        env=variables,
        start_new_session=True,
        preexec_fn=_end_with_parent,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert child.process.stdout is not None
    os.set_blocking(child.process.stdout.fileno(), False)


def _hear(child: Child, tell: Say) -> None:
    """Pass on the lines that a service prints. By one of them it says where it is ready."""
    assert child.process is not None
    assert child.process.stdout is not None
    *lines, child.unsaid = (child.unsaid + (child.process.stdout.read(PIECE_BYTES) or b"")).split(b"\n")
    ended = child.process.returncode is not None
    if ended:
        child.process.stdout.close()
    if len(child.unsaid) > PIECE_BYTES or (child.unsaid and ended):
        lines, child.unsaid = [*lines, child.unsaid], b""
    for line in lines:
        text = line.decode(errors="replace")
        tell(text)
        child.url = child.url or text.partition(f"smap {child.name} is ready at ")[2]


def _check_port(child: Child, host: str) -> None:
    """A service ended before it was ever ready: if its port is taken, all would only be started again and again."""
    try:
        socket.create_server((host, child.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        words = f"smap {child.name} cannot listen on {host} port {child.port}: {error.strerror}"
        hint = f"name the first of {len(NAMES)} free ports by SMAP_HTTP_PORT, or 0 for any; is another smap up?"
        raise OperatorError(words, hint) from None


def report_url(environment: Mapping[str, str], port: int) -> dict[str, str]:
    """Services know nothing of each other; whoever starts them all can say where the reports are. An address that the
    environment names goes first, also an empty one."""
    public, host = environment.get("SMAP_PUBLIC_URL", "").rstrip("/"), load(environment).http_host
    if not public and (port == 0 or host in EVERYWHERE):
        return {}
    base = public or f"http://{f'[{host}]' if ':' in host else host}:{port}"
    address = f"{base}/projects/{{project}}/report"
    return {REPORT_URL: address} if REPORT_URL not in environment and leads_to_project(address) else {}


def _tell_where(reports: str, shared: Mapping[str, str], tell: Say) -> None:
    """What was named by the environment is known to whoever reads this; a directory depends on where one stands."""
    tell(f"reports are served at {reports}/ and {reports}/projects/PROJECT/report")
    tell("commands in another shell work on the same data after:")
    for name, value in {**shared, "SMAP_HOME": str(Path(shared["SMAP_HOME"]).absolute())}.items():
        tell(f"export {name}={shlex.quote(value)}")


def _ports(environment: Mapping[str, str]) -> list[int]:
    """Where each listens: side by side from SMAP_HTTP_PORT on, if that is set."""
    first = load(environment).http_port
    if first is None:
        return [HTTP_PORTS[name] for name in NAMES]
    if first + len(NAMES) > PORTS_END:
        raise CallerError(f"SMAP_HTTP_PORT={first} leaves no room for {len(NAMES)} services", "choose a lower port")
    return [first + number if first else 0 for number in range(len(NAMES))]


def _end_with_parent() -> None:
    """Runs in the child before its program: a parent that was killed cannot stop anybody any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end(children: list[Child], asked: list[int], tell: Say) -> None:
    """Stop them politely. Whoever asks a second time does not want to wait."""
    running = {child.name: child.process for child in children if child.process is not None}
    for process in running.values():
        process.terminate()
    deadline = time.monotonic() + STOP_S_MAX
    while len(asked) < 2 and time.monotonic() < deadline and any(one.poll() is None for one in running.values()):
        time.sleep(LOOK_S)
    for process in running.values():
        process.kill()
        process.wait()
    for child in children:
        if child.process is not None:
            _hear(child, tell)


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """A list that is empty until a signal arrives."""
    asked: list[int] = []
    before = {number: signal.signal(number, lambda got, _: asked.append(got)) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _servers(say: Say) -> Iterator[dict[str, str]]:
    """RabbitMQ, Redis, S3 and PostgreSQL of the rig, and the variables that name them."""
    try:
        from headrace.testing.rig import new_server
        from headrace.testing.rig.redis import RedisServer
        from headrace.testing.rig.s3 import S3Server
    except ModuleNotFoundError as error:
        raise MissingExtra(f"the rig needs {error.name}", "pip install headrace-smap 'headrace[rig]'") from None
    with ExitStack() as stack:
        started = {}
        for name in ("postgres", "redis", "rabbitmq", "s3"):
            say(f"starting {name} …")
            try:
                started[name] = stack.enter_context(new_server(name))
            except HeadraceError as error:
                error.hint = error.hint or f"headrace rig get {name}"
                raise
        redis, s3 = started["redis"], started["s3"]
        assert isinstance(redis, RedisServer)
        assert isinstance(s3, S3Server)
        bucket = stack.enter_context(s3.bucket())
        yield {
            "SMAP_AMQP_URL": started["rabbitmq"].url,
            "SMAP_REDIS_URL": redis.url_of(1),
            "SMAP_PG_DSN": started["postgres"].url,
            "SMAP_S3_URL": bucket.url,
            "AWS_ACCESS_KEY_ID": bucket.access_key,
            "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
            "AWS_REGION": bucket.region,
        }
