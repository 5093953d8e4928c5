"""Products found in videos: seven services, and what operators do.

`headrace matching …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import typer

from headrace.commands import command_group
from headrace_matching.commands import schemas, services

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `matching` to the commands of headrace."""
    app = command_group("matching", HELP)
    services.register(app)
    schemas.register(app)
    tree.add_typer(app)
