"""The commands of an application that has a frame: one for each service, `up`, `doctor` and `settings`.

They are added to a tree of commands (`headrace shop up`), or are a program of their own (`python -m shop up`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from headrace.cli.app import answered, global_first
from headrace.cli.doctor import answer_checks
from headrace.cli.groups import command_group
from headrace.cli.session import Session, of
from headrace.core.checks import Check, warning
from headrace.services.frame import Frame, Talk
from headrace.services.http_settings import PORT_MAX
from headrace.services.log_lines import log_to_stderr
from headrace.services.settings import Declared, declared, help_of

Register = Callable[[typer.Typer], None]
# A letter too many or too few, or two that changed places; names of passwords and the like are further away.
ALIKE = 0.9


def frame_commands(tree: typer.Typer, frame: Frame[Any]) -> None:
    """Add the commands of a frame to a tree: those of its services, `up`, `doctor` and `settings`."""
    service_commands(tree, frame)

    @tree.command(help="Run everything, each service in its own process, until Ctrl-C.")
    def up(context: typer.Context) -> int:
        return asyncio.run(frame.up(os.environ, Talk(of(context).say, tell)))


def service_commands(tree: typer.Typer, *frames: Frame[Any]) -> None:
    """Without `up`: for an application that runs all in its own way. Services whose settings have another prefix have a
    frame of their own."""
    for frame in frames:
        for name, opened in frame.services.items():
            help_text = opened.__doc__ or f"Run the service {name} until it is told to stop."
            tree.command(name, help=help_text)(_serving(frame, name))

    @tree.command(help="Check settings, parts and services, and say what to do.")
    def doctor(context: typer.Context) -> int:
        return answer_checks(of(context), asyncio.run(_examined(frames)))

    @tree.command(help="List the settings: variable, value and meaning.")
    def settings(context: typer.Context) -> None:
        _settings(of(context), frames)


def main(frame: Frame[Any], *registers: Register, arguments: Sequence[str] | None = None) -> int:
    """Run a command of a frame as a program of its own; `registers` add further ones."""
    first, rest = global_first(sys.argv[1:] if arguments is None else arguments)
    tree = command_group(frame.name, completion=False)
    tree.callback()(_everywhere)
    frame_commands(tree, frame)
    for register in registers:
        register(tree)
    words = [*first, *(rest or ["--help"])]
    return answered(lambda: tree(args=words, prog_name=frame.name, standalone_mode=False), words)


def tell(line: str) -> None:
    """A line on standard output, at once: somebody may wait for it."""
    print(line, file=sys.stdout, flush=True)


def _everywhere(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    # A service sets its own level: here is somebody who looks at something else.
    log_to_stderr(logging.DEBUG if debug else logging.WARNING)
    context.obj = Session({}, json, debug)


def _serving(frame: Frame[Any], name: str) -> Callable[..., None]:
    def command(port: Any = None) -> None:
        log_to_stderr()
        asyncio.run(frame.serve(name, os.environ, port, tell))

    where = help_of(frame.settings, frame.prefix, "http_port")
    option = typer.Option("--port", min=0, max=PORT_MAX, help=where)
    command.__annotations__ = {"port": Annotated[int | None, option], "return": None}
    return command


async def _examined(frames: Sequence[Frame[Any]]) -> list[Check]:
    found = [await frame.examine(os.environ) for frame in frames]
    return [*_misspelt(frames), *(check for checks in found for check in checks)]


def _misspelt(frames: Sequence[Frame[Any]]) -> Iterator[Check]:
    """Variables that nobody reads and that look like one of the settings."""
    known = {one.variable for frame in frames for one in declared(frame.settings, frame.prefix)}
    prefixes = tuple(frame.prefix for frame in frames)
    for name in sorted(os.environ):
        if name.startswith(prefixes) and name not in known:
            for near in get_close_matches(name, known, 1, ALIKE):
                yield warning(name, "is read by nobody", f"is {near} meant?")


def _settings(session: Session, frames: Sequence[Frame[Any]]) -> None:
    known: dict[str, Declared] = {}
    values: dict[str, str | None] = {}
    for frame in frames:
        read = frame.load(os.environ)
        for one in declared(frame.settings, frame.prefix):
            known[one.variable], values[one.variable] = one, _shown(one, getattr(read, one.name))

    def show(console: Any) -> None:
        from rich.markup import escape

        from headrace.cli.tables import plain_table

        table = plain_table("variable", "value", "meaning")
        for one in known.values():
            table.add_row(one.variable, escape(values[one.variable] or "–"), escape(one.facts.doc))
        console.print(table)

    session.answer(values, show)


def _shown(one: Declared, value: Any) -> str | None:
    """A value as a variable would have it; None if there is none. Of a secret one sees whether it is set."""
    if value is None or value in ("", ()):
        return None
    if one.facts.secret:
        return "…"
    return ",".join(value) if isinstance(value, tuple) else str(value)
