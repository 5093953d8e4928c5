"""Social-media analytics: four services, a demo, and what operators do.

`headrace smap …`. What a command needs is imported when it runs.
"""

from __future__ import annotations

import typer

from headrace.commands import command_group
from headrace_smap.commands import demo, labels, letters, operators, receivers, reports, services

HELP = (__doc__ or "").partition("\n")[0]


def register(tree: typer.Typer) -> None:
    """The entry point: add `smap` to the commands of headrace."""
    app = command_group("smap", HELP)
    demo.register(app)
    services.register(app)
    operators.register(app)
    receivers.register(app)
    reports.register(app)
    labels.register(app)
    letters.register(app)
    tree.add_typer(app)
