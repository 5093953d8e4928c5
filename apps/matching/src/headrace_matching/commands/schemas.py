"""`headrace matching asyncapi`: the contract with workers of others."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands import Exit, tell
from headrace_matching.events.names import EXCHANGE


def register(app: typer.Typer) -> None:
    app.command()(asyncapi)


def asyncapi(
    exchange: Annotated[str, typer.Option(help="The topic exchange that the document names.")] = EXCHANGE,
) -> int:
    """Print the AsyncAPI document of the events, made of their JSON Schemas."""
    import msgspec

    from headrace_matching.events.asyncapi import document

    tell(msgspec.json.format(msgspec.json.encode(document(exchange)), indent=2).decode())
    return Exit.OK
