"""`headrace scheduler demo`: orders and sales that are paid once, though a worker is killed and another wakes too late.

Nothing is installed and no server is needed: all services work in one directory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.commands import answer_receipt, of

# Of the settings of the environment none shall change what is shown.
SETTINGS = ("WORKER_", "LOCK_", "CASSANDRA_", "CASS_", "ORDERS_", "SCHEDULER_")
PAGE_FILE = "receipt.html"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    sales: Annotated[int, typer.Option(min=4, max=1_000, help="How many sales, beside the two that go wrong.")] = 24,
    folder: Annotated[
        Path | None, typer.Option("--to", help="Where to leave everything; else a new directory.")
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Do not open the page.")] = False,
) -> int:
    """Carry on orders and sales with two worker processes, kill one with -9, freeze the other past its lock, and count.

    They come in over the real REST interfaces. The receipt is read from the tables where payments and shipments are; a
    page shows what happened. Needs no server.
    """
    import asyncio
    import tempfile
    from dataclasses import replace

    from headrace.errors import Conflict
    from headrace.pages import save
    from headrace_scheduler.demo.page import receipt_page
    from headrace_scheduler.demo.story import Story

    session = of(context)
    place = (folder or Path(tempfile.mkdtemp(prefix="headrace-scheduler-"))).absolute()
    place.mkdir(parents=True, exist_ok=True)
    if any(place.iterdir()):
        raise Conflict(f"{place} is not empty", "name another directory: an earlier demo's sales would be counted too")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    story = Story(place, plain, session.say)
    receipt = replace(asyncio.run(story.tell(sales)), page=str(place / PAGE_FILE))
    save(receipt_page(receipt, story), place / PAGE_FILE)
    code = answer_receipt(session, receipt)
    if not (headless or session.json) and sys.stdout.isatty():
        import webbrowser

        webbrowser.open((place / PAGE_FILE).as_uri())
    return code
