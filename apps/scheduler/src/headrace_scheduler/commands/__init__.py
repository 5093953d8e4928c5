"""A distributed job scheduler: its services, its tables, its locks and its schedules.

`headrace scheduler …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import typer

from headrace.commands import command_group
from headrace_scheduler.commands import (
    audit,
    bench,
    calendars,
    chaos,
    demo,
    locks,
    purge,
    rca,
    schedules,
    schema,
    services,
)

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `scheduler` to the commands of headrace."""
    app = command_group("scheduler", HELP)
    demo.register(app)
    services.register(app)
    schema.register(app)
    locks.register(app)
    rca.register(app)
    bench.register(app)
    chaos.register(app)
    schedules.register(app)
    calendars.register(app)
    audit.register(app)
    purge.register(app)
    tree.add_typer(app)
