"""Social-media analytics: four services, a demo, and what operators do.

`headrace smap …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import typer

from headrace_smap import demo_command, operator_commands, service_commands

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `smap` to the commands of headrace."""
    app = typer.Typer(name="smap", help=HELP, no_args_is_help=True, rich_markup_mode=None)
    demo_command.register(app)
    service_commands.register(app)
    operator_commands.register(app)
    tree.add_typer(app)
