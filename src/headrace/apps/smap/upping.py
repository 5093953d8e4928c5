"""All four services as processes of one parent, on servers of the environment or of the rig.

A service that ends by itself is started again, slower each time; when the parent ends, all end with it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from headrace.apps.smap.serving import NAMES
from headrace.apps.smap.settings import HTTP_PORTS, load
from headrace.cli.failures import Exit
from headrace.core.errors import CallerError, HeadraceError, MissingExtra

STOP_S_MAX = 20.0
PAUSE_S_MIN, PAUSE_S_MAX = 0.5, 10.0
STEADY_S = 30.0
LOOK_S = 0.1
PORTS_END = 65_536
_PR_SET_PDEATHSIG = 1

Say = Callable[[str], None]


@dataclass(slots=True)
class Child:
    """A service's process, and when it may be started again."""

    name: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    pause_s: float = PAUSE_S_MIN
    due_at: float = field(default_factory=time.monotonic)
    refused: bool = False


def up_all(rig: bool, environment: Mapping[str, str], say: Say) -> int:
    """Run the services until a signal; the exit code."""
    with ExitStack() as stack:
        variables = dict(environment)
        if rig:
            variables.update(stack.enter_context(_servers(say)))
        stopped = stack.enter_context(_asked_to_stop())
        children = [Child(name, port) for name, port in zip(NAMES, _ports(variables), strict=True)]
        try:
            while not stopped:
                _tend(children, variables, say)
                if any(child.refused for child in children):
                    return Exit.USAGE
                time.sleep(LOOK_S)
        finally:
            _end(children, stopped)
    return Exit.OK


def _tend(children: list[Child], variables: Mapping[str, str], say: Say) -> None:
    now = time.monotonic()
    for child in children:
        if child.process is not None and (code := child.process.poll()) is not None:
            if code == Exit.USAGE:
                # It has said which setting it cannot work with; that does not change by itself.
                child.process, child.refused = None, True
                continue
            if now - child.started_at > STEADY_S:
                child.pause_s = PAUSE_S_MIN
            say(f"smap {child.name} ended with {code}; again in {child.pause_s:g} s")
            child.process, child.due_at = None, now + child.pause_s
            child.pause_s = min(PAUSE_S_MAX, child.pause_s * 2)
        if child.process is None and now >= child.due_at:
            command = [sys.executable, "-m", "headrace", "smap", child.name, "--port", str(child.port)]
            child.process = subprocess.Popen(
                command, env=variables, start_new_session=True, preexec_fn=_end_with_parent
            )
            child.started_at = now


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


def _end(children: list[Child], asked: list[int]) -> None:
    """Stop them politely. Whoever asks a second time does not want to wait."""
    running = [child.process for child in children if child.process is not None]
    for process in running:
        process.terminate()
    deadline = time.monotonic() + STOP_S_MAX
    while len(asked) < 2 and time.monotonic() < deadline and any(process.poll() is None for process in running):
        time.sleep(LOOK_S)
    for process in running:
        process.kill()
        process.wait()


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
        raise MissingExtra(f"the rig needs {error.name}", "pip install 'headrace[smap,rig]'") from None
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
            "SMAP_HOME": os.environ.get("SMAP_HOME", "smap-data"),
        }
