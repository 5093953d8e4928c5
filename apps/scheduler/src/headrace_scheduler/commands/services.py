"""`headrace scheduler all|api|worker|reconciler|orders`, and what checks them."""

from __future__ import annotations

import typer

from headrace.commands import service_commands


def register(app: typer.Typer) -> None:
    from headrace_scheduler.frame import FRAME
    from headrace_scheduler.orders.frame import ORDERS

    service_commands(app, FRAME, ORDERS)
