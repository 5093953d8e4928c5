"""The command tree. Options that work with every command may stand anywhere in the line.

Only the command that is called is imported; the others are one sentence each, so that asking for help is quick.
Applications bring commands of their own (`apps`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

from headrace.cli.failures import Exit, tell
from headrace.cli.groups import command_group
from headrace.cli.session import Session
from headrace.settings import help_for

COMMANDS = {
    "demo": "Fan out, kill a worker on purpose, and finish exactly once.",
    "worker": "Run handlers in worker processes until told to drain.",
    "jobs": "Submit, look at and steer jobs.",
    "dead": "Dead letters: list, show, redrive, purge.",
    "schedules": "Flows that are submitted by the clock.",
    "effects": "What stands in a sink, and what was left behind there.",
    "verify": "Recount every job from its items.",
    "doctor": "Check the surroundings, and say what to do.",
    "migrate": "The schema of a store.",
    "rig": "Real servers on this machine, and faults on demand.",
}
# The product does not know its testing tools: this one is looked up by name, and only when it is called.
_ELSEWHERE = {"rig": "headrace.testing.rig.commands"}
_VALUED = ("--store", "--tenant")
_PLAIN = ("--json", "--debug")
_COMPLETION = "_HEADRACE_COMPLETE"


def build(called: str | None) -> typer.Typer:
    """The tree with one command in full (None: all of them)."""
    app = command_group(
        "headrace",
        "Data pipelines and background jobs that finish exactly once.",
        epilog="Everywhere: --store URL, --tenant NAME, --json, --debug.",
    )
    app.callback()(_everywhere)
    for name, sentence in COMMANDS.items():
        if called in (None, name):
            importlib.import_module(_ELSEWHERE.get(name, f"headrace.cli.{name}")).register(app)
        else:
            app.command(name, help=sentence)(_not_called)
    if called not in COMMANDS:
        _add_apps(app, called)
    return app


def _add_apps(app: typer.Typer, called: str | None) -> None:
    from headrace.cli.apps import installed
    from headrace.core.errors import OperatorError

    for each in installed(COMMANDS):
        if called is None:
            # A list of everything is not spoilt by one that is broken.
            with suppress(OperatorError):
                each.register(app)
        elif called == each.name:
            each.register(app)
        else:
            app.command(each.name, help=each.sentence)(_not_called)


def run(arguments: Sequence[str]) -> int:
    """Run one command; the answer is the exit code."""
    first, rest = global_first(arguments)
    words = [*first, *rest] if rest else ["--help"]

    def call() -> Any:
        app = build(None if _COMPLETION in os.environ else words[len(first)] if rest else "")
        return app(args=words, prog_name="headrace", standalone_mode=False)

    return answered(call, first)


def answered(call: Callable[[], Any], words: Sequence[str]) -> int:
    """Call a command, say what went wrong with it, and answer with the exit code."""
    as_json, debug = "--json" in words, "--debug" in words
    try:
        code = call()
    except typer.Abort:
        return tell(KeyboardInterrupt(), as_json, debug)
    except typer.TyperException as error:
        return _usage(error, as_json)
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.FAILED
    except (Exception, KeyboardInterrupt) as error:
        return tell(error, as_json, debug)
    # The parser makes this code of an interrupt, and says nothing.
    return tell(KeyboardInterrupt(), as_json, debug) if code == Exit.INTERRUPTED else int(code or 0)


def _everywhere(
    context: typer.Context,
    store: Annotated[str | None, typer.Option(help=help_for("store"))] = None,
    tenant: Annotated[str | None, typer.Option(help=help_for("tenant"))] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.")] = False,
) -> None:
    context.obj = Session({"store": store, "tenant": tenant}, json, debug)


def _not_called() -> None:
    """Stands in the list of commands for one that this line does not call."""


def global_first(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Part the options of every command from the rest, so that they can go first, where the parser expects them."""
    first: list[str] = []
    rest: list[str] = []
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            rest += [word, *waiting]
            break
        if word in _PLAIN or any(word.startswith(f"{option}=") for option in _VALUED):
            first.append(word)
        elif word in _VALUED and waiting:
            first += [word, waiting.pop(0)]
        else:
            rest.append(word)
    return first, rest


def _usage(error: typer.TyperException, as_json: bool) -> int:
    """A wrong line is the caller's; a noun without a verb gets its help."""
    from headrace.core.errors import CallerError

    context = getattr(error, "ctx", None)
    message = error.format_message()
    if message.startswith("Usage:"):
        typer.echo(message, err=True)
        return Exit.USAGE
    where = context.command_path if context is not None else "headrace"
    return tell(CallerError(message, f"{where} --help"), as_json, debug=False)
