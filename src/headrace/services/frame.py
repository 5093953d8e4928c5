"""The frame of an application: its services, and what runs, checks and stops all of them.

`up` keeps the services, and what else the application names, in processes of their own under the one supervisor.
`doctor` asks the parts, and the services that should be there. Commands are made from a frame (`headrace.commands`).
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, Generic, TypeVar

from headrace.core.backoff import Backoff
from headrace.core.checks import Check, bad, fine, warning
from headrace.core.claims import HOLD_S
from headrace.core.errors import CallerError, HeadraceError, PortTaken
from headrace.runtime.programs import Program
from headrace.runtime.seams import RealClock
from headrace.runtime.supervisor import Plan, Supervisor
from headrace.services.causes import bare_errors
from headrace.services.http_settings import PORT_MAX, HttpSettings
from headrace.services.service import STOP_S_MAX, Part, Service, serve
from headrace.services.settings import Sources, read

S = TypeVar("S", bound=HttpSettings)
# A service takes seconds to start, and one that lives for half a minute had what it needs.
RESTARTS = Backoff(0.5, 10.0, jitter=0.0)
STEADY_S = 30.0
ANSWER_S_MAX = 2.0
ANSWER_BYTES_MAX = 4_096
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Talk:
    """`say` is for what happens on the way, `tell` for lines that a program may read."""

    say: Say
    tell: Say


@dataclass(frozen=True, slots=True)
class Frame(Generic[S]):
    """An application.

    `start` are the words after `python` that lead to its commands. `services` open one service each, given the settings
    and an event that is set when it shall stop; `ports` are where they listen by default. `parts` opens what `doctor`
    asks. `programs` are run by `up` beside the services; `told` makes lines of what programs said when all were ready.
    `whole` is the first of the services, if that one has all others in it: where it answers none of them is missing.
    `checks` are what `doctor` says besides: parts answer or do not, and what an operator should know of them is more.
    """

    name: str
    settings: type[S]
    prefix: str
    start: tuple[str, ...]
    services: Mapping[str, Callable[[S, asyncio.Event], AbstractAsyncContextManager[Service]]]
    parts: Callable[[S], AbstractAsyncContextManager[Mapping[str, Part]]]
    ports: Mapping[str, int] = field(default_factory=dict)
    programs: Callable[[S, Mapping[str, str]], Sequence[Program]] = lambda _settings, _environment: ()
    told: Callable[[Mapping[str, str]], Iterable[str]] = lambda _said: ()
    whole: str = ""
    checks: Callable[[S], Awaitable[Sequence[Check]]] | None = None

    def load(self, environment: Mapping[str, str], **flags: Any) -> S:
        """The settings of the environment, with what a command was given on top."""
        return read(self.settings, Sources(self.prefix, environment, flags))

    async def serve(self, name: str, environment: Mapping[str, str], port: int | None, say: Say) -> None:
        """One service until a signal asks it to stop."""
        if name not in self.services:
            raise CallerError(f"there is no service {name!r}", f"one of {', '.join(self.services)}")
        settings = self.load(environment, http_port=port)
        if settings.http_port is None:
            settings = self.load(environment, http_port=self.ports.get(name, 0))
        try:
            with bare_errors():
                await serve(lambda stop: self.services[name](settings, stop), settings, self.name, say)
        except PortTaken as error:
            hint = f"name another port by {self.prefix}HTTP_PORT or --port, 0 for any; is another {self.name} up?"
            raise PortTaken(f"{self.name} {name} {error}", hint) from None

    async def up(self, environment: Mapping[str, str], talk: Talk) -> int:
        """All services, and the programs beside them, until a signal; the exit code."""
        settings = self.load(environment)
        programs = [self.program(name, port, environment, talk) for name, port in self.ports_of(settings).items()]
        plan = Plan(
            (*programs, *self.programs(settings, environment)),
            hold_s=HOLD_S,
            drain_s=STOP_S_MAX,
            restarts=RESTARTS,
            steady_s=STEADY_S,
            patient=True,
        )
        supervisor = Supervisor(plan, RealClock(), talk.say)
        undo, telling = supervisor.obey_signals(), asyncio.ensure_future(self._tell(supervisor, talk.tell))
        try:
            return await supervisor.run()
        finally:
            telling.cancel()
            undo()

    async def examine(self, environment: Mapping[str, str]) -> list[Check]:
        """What `doctor` finds: settings, parts, and the services that should be there."""
        try:
            settings = self.load(environment)
        except CallerError as error:
            return [bad("settings", str(error), error.hint)]
        checks = [fine("settings", "can be read")]
        try:
            async with self.parts(settings) as parts:
                checks += await asyncio.gather(*(_asked(name, part) for name, part in parts.items()))
        except HeadraceError as error:
            checks.append(bad("parts", str(error), error.hint))
        checks += await self._known(settings)
        checks += [check async for check in self._answering(settings)]
        return checks

    def program(self, name: str, port: int, environment: Mapping[str, str], talk: Talk) -> Program:
        """One service as a process of its own; `up` of another frame may run it beside its services."""
        command = (sys.executable, *self.start, name, "--port", str(port))
        return Program(f"{self.name} {name}", command, environment, lines=talk.tell)

    def ports_of(self, settings: S) -> dict[str, int]:
        """Where each listens: at its own port, or side by side from the one that is set; 0 is any for all. Services
        that have the same port, because one is a part of the other, have the same one then too."""
        first, own = settings.http_port, {name: self.ports.get(name, 0) for name in self.services}
        if first is None:
            return own
        places = list(dict.fromkeys(own[name] or name for name in own))
        if first + len(places) - 1 > PORT_MAX:
            raise CallerError(
                f"{self.prefix}HTTP_PORT={first} leaves no room for {len(places)} services", "choose a lower port"
            )
        return {name: first + places.index(own[name] or name) if first else 0 for name in own}

    async def _known(self, settings: S) -> Sequence[Check]:
        """What the application says; that a part does not answer was said before."""
        try:
            return await self.checks(settings) if self.checks is not None else ()
        except HeadraceError as error:
            return () if error.heals else (bad("checks", str(error), error.hint),)

    async def _tell(self, supervisor: Supervisor, tell: Say) -> None:
        await supervisor.all_ready()
        for line in self.told(supervisor.said):
            tell(line)

    async def _answering(self, settings: S) -> AsyncIterator[Check]:
        by_port: dict[int, list[str]] = {}
        for name, port in self.ports_of(settings).items():
            by_port.setdefault(port, []).append(name)
        for port, names in by_port.items():
            if not port:
                continue
            check, service = await asyncio.to_thread(_ready_at, self.name, names, (settings.http_host, port))
            yield check
            if service and service == self.whole:
                return


def export_lines(variables: Mapping[str, str], unset: Sequence[str] = ()) -> Iterator[str]:
    """What `up` tells at its end: how commands in another shell find the same data. Nothing without variables."""
    if not variables:
        return
    yield "commands in another shell work on the same data after:"
    yield from (f"unset {name}" for name in unset)
    yield from (f"export {name}={shlex.quote(value)}" for name, value in variables.items())


async def _asked(name: str, part: Part) -> Check:
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            await part.answers()
    except HeadraceError as error:
        return bad(name, str(error), error.hint or "is its server up?")
    except TimeoutError:
        return bad(name, f"does not answer within {ANSWER_S_MAX:g} s", "is its server up?")
    return fine(name, "answers")


def _ready_at(application: str, names: Sequence[str], place: tuple[str, int]) -> tuple[Check, str]:
    """How the service at a place is, and which one of these it says that it is; "" if it does not say."""
    host, port = place
    title, service = f"{application} {' or '.join(names)}", ""
    connection = HTTPConnection(host, port, timeout=ANSWER_S_MAX)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        alive, said = answer.status == 200, answer.read(ANSWER_BYTES_MAX)
    except (OSError, HTTPException) as error:
        words = f"nothing answers at {host} port {port}: {error}"
        return warning(title, words, "start it, or everything with `up`"), service
    finally:
        connection.close()
    for name in names:
        if f'"{application}-{name}"'.encode() in said:
            title, service = f"{application} {name}", name
    if not service:
        words = f"another program answers at {host} port {port}, which is not {title}"
        return warning(title, words, "stop that one, or name another port"), service
    if not alive:
        return bad(title, "is not well", "see its log"), service
    return fine(title, f"is alive at {host} port {port}"), service
