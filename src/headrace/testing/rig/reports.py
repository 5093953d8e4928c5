"""What a keeper and a doctor answer, for people and for shells."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.cli.tables import plain_table
from headrace.testing.rig.doctor import RigFinding

_STYLES = {"up": "green", "paused": "yellow", "stopped": "yellow", "killed": "red"}
_MEGABYTE = 1_000_000


def url_table(servers: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table("server", "version", "URL")
    _fold(table, "URL")
    for server in servers:
        table.add_row(server["name"], server["version"], escape(server["url"]))
    return table


def status_table(servers: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table("server", "version", "state", "pid", "memory", "URL", "faults")
    _fold(table, "URL", "faults")
    for server in servers:
        state = server["state"]
        table.add_row(
            server["name"],
            server["version"],
            f"[{_STYLES[state]}]{state}[/]",
            str(server["pid"] or ""),
            f"{server['memory_bytes'] / _MEGABYTE:.0f} MB" if server["pid"] else "",
            escape(server["url"]),
            escape(_faults(server)),
        )
    return table


def variable_lines(servers: Sequence[Mapping[str, Any]]) -> str:
    """Lines that a shell can source."""
    variables = {name: value for server in servers for name, value in server["variables"].items()}
    return "\n".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())


def show_findings(console: Console, findings: Sequence[RigFinding]) -> None:
    for finding in findings:
        wanted = f"(needed: {finding.wanted})" if finding.wanted and not finding.fine else ""
        words = (finding.part, finding.version, finding.place, wanted)
        console.print(_mark(finding), f"{finding.name}: ", end="")
        console.print(" ".join(word for word in words if word), markup=False)
        if not finding.fine:
            console.print(f"         → {finding.command}", markup=False)


def _mark(finding: RigFinding) -> str:
    if finding.fine:
        return "[green]ok     [/]"
    return "[red]wrong  [/]" if finding.place else "[red]missing[/]"


def _fold(table: Table, *headers: str) -> None:
    """On a narrow terminal these columns go on in the next line; nothing is cut off."""
    for column in table.columns:
        column.no_wrap = column.header not in headers
        column.overflow = "fold"


def _faults(server: Mapping[str, Any]) -> str:
    heals_in_s = server["heals_in_s"]
    undone = [] if heals_in_s is None else [f"(undone in {heals_in_s:g} s)"]
    return " ".join(["; ".join(server["faults"]), *undone]).strip()
