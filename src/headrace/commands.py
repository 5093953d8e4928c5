"""The manners of the command line, for the commands of an application: exit codes, `--json`, tables, checks, demos.

    def register(app: typer.Typer) -> None:      # named by the entry point `headrace.apps`
        app.command()(count)

    def count(context: typer.Context) -> int:
        of(context).answer({"count": 3}, lambda console: console.print("3"))
        return Exit.OK

Names are loaded when they are first used: `headrace --help` waits for none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.cli.demos import DemoFolder as DemoFolder
    from headrace.cli.demos import Headless as Headless
    from headrace.cli.demos import demo_folder as demo_folder
    from headrace.cli.demos import environment_without as environment_without
    from headrace.cli.demos import open_page as open_page
    from headrace.cli.doctor import answer_checks as answer_checks
    from headrace.cli.failures import Exit as Exit
    from headrace.cli.frames import frame_commands as frame_commands
    from headrace.cli.frames import main as main
    from headrace.cli.frames import service_commands as service_commands
    from headrace.cli.frames import tell as tell
    from headrace.cli.groups import command_group as command_group
    from headrace.cli.lists import Column as Column
    from headrace.cli.lists import print_list as print_list
    from headrace.cli.receipts import answer_receipt as answer_receipt
    from headrace.cli.session import Session as Session
    from headrace.cli.session import of as of
    from headrace.cli.tables import plain_table as plain_table
    from headrace.core.checks import Check as Check
    from headrace.core.checks import bad as bad
    from headrace.core.checks import fine as fine
    from headrace.core.checks import warning as warning

_NAMES = {
    "headrace.cli.failures": ("Exit",),
    "headrace.cli.session": ("Session", "of"),
    "headrace.cli.tables": ("plain_table",),
    "headrace.cli.lists": ("Column", "print_list"),
    "headrace.cli.groups": ("command_group",),
    "headrace.core.checks": ("Check", "bad", "fine", "warning"),
    "headrace.cli.doctor": ("answer_checks",),
    "headrace.cli.receipts": ("answer_receipt",),
    "headrace.cli.demos": ("DemoFolder", "Headless", "demo_folder", "environment_without", "open_page"),
    "headrace.cli.frames": ("frame_commands", "main", "service_commands", "tell"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.commands' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
