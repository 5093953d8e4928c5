"""Telecom performance files: from FTP into MySQL and Kafka, every counter once.

`headrace pm …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import typer

from headrace.commands import command_group
from headrace_pm.commands import (
    archive,
    ddl,
    deliveries,
    demo,
    dictionaries,
    files,
    generate,
    kpi,
    purge,
    services,
    shadow,
)

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `pm` to the commands of headrace."""
    app = command_group("pm", HELP)
    generate.register(app)
    services.register(app)
    ddl.register(app)
    shadow.register(app)
    dictionaries.register(app)
    files.register(app)
    archive.register(app)
    purge.register(app)
    deliveries.register(app)
    kpi.register(app)
    demo.register(app)
    tree.add_typer(app)
