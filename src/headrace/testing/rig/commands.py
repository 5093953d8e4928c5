"""`headrace rig …`: real servers on this machine, for as long as somebody works with them.

The commands only ask: a keeper, which they start when it is needed, has the servers and stays when they are gone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.failures import Exit
from headrace.cli.groups import command_group
from headrace.cli.session import Session, of
from headrace.core.errors import CallerError, Conflict, NotFound
from headrace.testing.rig import rendezvous
from headrace.testing.rig.catalogue import SERVERS, TOOLS
from headrace.testing.rig.rendezvous import KeeperPlace

if TYPE_CHECKING:
    from headrace.testing.rig.keeper import Keeper

HELP = "Real servers on this machine, and faults on demand."
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0}

app = command_group("rig", HELP)


def _servers(incomplete: str) -> list[str]:
    return [name for name in SERVERS if name.startswith(incomplete)]


def _parts(incomplete: str) -> list[str]:
    return [name for name in (*SERVERS, *TOOLS) if name.startswith(incomplete)]


_SERVERS = f"Any of {', '.join(SERVERS)}."
_PARTS = f"Servers and tools ({', '.join(TOOLS)}); without names all of them."
Servers = Annotated[list[str] | None, typer.Argument(metavar="SERVER", help=_SERVERS, autocompletion=_servers)]
Parts = Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_PARTS, autocompletion=_parts)]
RigName = Annotated[str, typer.Option("--name", envvar="HEADRACE_RIG", help="Which rig, if you have several.")]
AsVariables = Annotated[bool, typer.Option("--env", help="Print NAME=value lines for a shell.")]


def register(tree: typer.Typer) -> None:
    tree.add_typer(app)


@app.command()
def up(  # noqa: PLR0913 - the parameters of a command are its options
    context: typer.Context,
    servers: Servers = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="SERVER.NAME=VALUE", help="A setting of a server; repeatable.")
    ] = None,
    env: AsVariables = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Stay here; Ctrl-C stops them.")] = False,
    name: RigName = "default",
) -> None:
    """Start real servers and print their URLs.

    They stay up until `headrace rig down`, and their data is gone with it. What is missing on the machine is
    obtained first. The URLs lead through a proxy, so that `headrace rig break` can put faults on them.
    """
    from headrace.testing.rig.installation import obtain

    session, place, wanted = of(context), KeeperPlace(name), list(dict.fromkeys(servers or ()))
    _check_names(wanted)
    if session.json and env:
        raise CallerError("--json and --env are two forms of one answer", "choose one")
    request = {"verb": "up", "names": wanted, "settings": _settings(settings or (), wanted)}
    obtain(wanted, session.say)
    if foreground:
        _stay(session, place, request, env)
        return
    _show(session, rendezvous.ask_or_start(place, request, session.say), env)
    session.say("→ `headrace rig down` stops them; their data is gone with it")


@app.command()
def down(context: typer.Context, servers: Servers = None, name: RigName = "default") -> None:
    """Stop these servers, or all; their data is gone with them."""
    session, place = of(context), KeeperPlace(name)
    answer = _ask(session, place, {"verb": "down", "names": servers or []})
    if answer is None:
        rendezvous.sweep(place)
        session.answer({"rig": name, "removed": []}, lambda console: console.print("nothing is up"))
        return
    if answer["ends"]:
        rendezvous.await_end(place, answer["keeper"])
    removed = answer["removed"]
    session.answer({"rig": name, "removed": removed}, lambda console: console.print(f"down: {', '.join(removed)}"))


@app.command()
def status(context: typer.Context, env: AsVariables = False, name: RigName = "default") -> None:
    """What is up, where, and what is wrong with it on purpose."""
    from headrace.testing.rig.reports import status_table

    session = of(context)
    answer = _ask(session, KeeperPlace(name), {"verb": "status"}) or {"rig": name, "keeper": None, "servers": []}
    if env:
        _show(session, answer, env)
    elif answer["servers"]:
        session.answer(answer, lambda console: console.print(status_table(answer["servers"])))
    else:
        session.answer(answer, lambda console: console.print("nothing is up"))


@app.command()
def doctor(context: typer.Context, names: Parts = None) -> int:
    """What is installed, what is missing and how to get it.

    Exit code 1 if something that was asked for is missing. Changes nothing.
    """
    from headrace.testing.rig.doctor import examine, surroundings
    from headrace.testing.rig.reports import show_findings

    findings = [*surroundings(), *examine(names or ())]
    complete = all(finding.fine for finding in findings)
    document = {"complete": complete, "findings": [asdict(finding) for finding in findings]}
    of(context).answer(document, lambda console: show_findings(console, findings))
    return Exit.OK if complete else Exit.FAILED


@app.command()
def get(context: typer.Context, names: Parts = None) -> None:
    """Obtain what servers and tools need, and start nothing."""
    from headrace.testing.rig.installation import obtain

    session = of(context)
    count = obtain(names or (), session.say)
    said = f"{count} obtained" if count else "nothing is missing"
    session.answer({"obtained": count}, lambda console: console.print(said))


@app.command("break")
def break_server(  # noqa: PLR0913 - the parameters of a command are its options
    context: typer.Context,
    server: Annotated[str, typer.Argument(metavar="SERVER", help="One that is up.", autocompletion=_servers)],
    fault: Annotated[list[str], typer.Argument(metavar="FAULT", help="What to do to it.")],
    for_: Annotated[str | None, typer.Option("--for", metavar="5s", help="Undo it after this time.")] = None,
    lose_last_second: Annotated[
        bool, typer.Option("--lose-last-second", help="With restart: as after a power cut.")
    ] = False,
    name: RigName = "default",
) -> None:
    """Break a server on purpose, or mend it.

    On its line: latency 200ms, bandwidth 10k, reset, refuse, blackhole [requests|replies], cut-after BYTES,
    cut-before TEXT, cut-reply TEXT. On its process: kill, stop, start, restart, pause, resume. `heal` mends both.
    """
    from headrace.testing.rig.reports import status_table

    session = of(context)
    request = {
        "verb": "break",
        "name": server,
        "words": fault,
        "for_s": None if for_ is None else _seconds(for_),
        "lose_last_second": lose_last_second,
    }
    answer = _ask(session, KeeperPlace(name), request)
    if answer is None:
        raise NotFound("nothing is up", f"headrace rig up {server}")
    session.answer(answer["servers"][0], lambda console: console.print(status_table(answer["servers"])))


def _ask(session: Session, place: KeeperPlace, request: Mapping[str, Any]) -> Any:
    try:
        return rendezvous.ask(place, request, session.say)
    except rendezvous.KeeperEnding:
        return None


def _show(session: Session, answer: Mapping[str, Any], env: bool) -> None:
    from headrace.testing.rig.reports import url_table, variable_lines

    if env:
        print(variable_lines(answer["servers"]), flush=True)
    else:
        session.answer(answer, lambda console: console.print(url_table(answer["servers"])))


def _stay(session: Session, place: KeeperPlace, request: Mapping[str, Any], env: bool) -> None:
    """Be the keeper ourselves."""
    import asyncio

    from headrace.testing.rig.keeper import Caller, keep

    lock = rendezvous.hold(place)
    if lock is None:
        raise Conflict(f"the rig {place.name!r} is up already", "headrace rig down, or another --name")

    async def ready(keeper: Keeper) -> None:
        _show(session, await keeper.up(request["names"], request["settings"], Caller(session.say)), env)
        session.say("→ Ctrl-C stops them; their data is gone then")

    try:
        asyncio.run(keep(place, lock, ready))
    finally:
        rendezvous.leave(place, lock)


def _check_names(names: Sequence[str]) -> None:
    if not names:
        raise CallerError("which servers?", f"headrace rig up …: {', '.join(SERVERS)}")
    for name in names:
        if name not in SERVERS:
            raise NotFound(f"the rig has no server {name!r}", f"it has: {', '.join(SERVERS)}")


def _settings(texts: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        server, dot, rest = text.partition(".")
        setting, sign, value = rest.partition("=")
        if not (dot and setting and sign):
            raise CallerError(f"--set {text} is no setting", "write it as --set redis.appendfsync=always")
        if server not in names:
            raise CallerError(f"--set {text}: {server} is not among the servers asked for", f"headrace rig up {server}")
        found.setdefault(server, {})[setting] = value
    return found


def _seconds(text: str) -> float:
    split = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text)
    if split is None or split[2] not in _UNITS_S:
        raise CallerError(f"--for {text} is no time", "write it as --for 500ms, --for 5s or --for 2m")
    return float(split[1]) * _UNITS_S[split[2]]
