"""Options that several commands have: which time, in which periods, of which elements."""

from __future__ import annotations

from typing import Annotated

import typer

From = Annotated[
    str | None, typer.Option("--from", help="A time such as 2026-01-31T06:00; UTC, or with its zone. Else a day ago.")
]
To = Annotated[str | None, typer.Option("--to", help="A time, which is left out. Else now.")]
Period = Annotated[str, typer.Option("--period", help="How often elements deliver: 5m, 15m, 60m.")]
Elements = Annotated[list[str] | None, typer.Option("--ne", help="An element by its name; repeatable. Else all.")]
Duration = Annotated[
    int | None, typer.Option("--duration", min=1, help="Only records of this duration, as the files have it.")
]
