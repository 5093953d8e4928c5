"""`headrace matching api`: one service each."""

from __future__ import annotations

import typer

from headrace.commands import service_commands


def register(app: typer.Typer) -> None:
    from headrace_matching.frame import FRAME

    service_commands(app, FRAME)
