"""`headrace scheduler demo`: orders and sales that are paid once, though a worker is killed and another wakes too late.

Nothing is installed and no server is needed: all services work in one directory.
"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands import (
    DemoFolder,
    Headless,
    answer_receipt,
    demo_folder,
    environment_without,
    of,
    open_page,
)

PAGE_FILE = "receipt.html"


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    context: typer.Context,
    sales: Annotated[int, typer.Option(min=4, max=1_000, help="How many sales, beside the two that go wrong.")] = 24,
    folder: DemoFolder = None,
    headless: Headless = False,
) -> int:
    """Carry on orders and sales with two worker processes, kill one with -9, freeze the other past its lock, and count.

    They come in over the real REST interfaces. The receipt is read from the tables where payments and shipments are; a
    page shows what happened. Needs no server.
    """
    import asyncio
    from dataclasses import replace

    from headrace.errors import Conflict
    from headrace.pages import save
    from headrace_scheduler.demo.page import receipt_page
    from headrace_scheduler.demo.story import Story
    from headrace_scheduler.settings import PREFIXES

    session = of(context)
    place = demo_folder(folder, "scheduler").absolute()
    if any(place.iterdir()):
        raise Conflict(f"{place} is not empty", "name another directory: an earlier demo's sales would be counted too")
    story = Story(place, environment_without(*PREFIXES), session.say)
    receipt = replace(asyncio.run(story.tell(sales)), page=str(place / PAGE_FILE))
    save(receipt_page(receipt, story), place / PAGE_FILE)
    code = answer_receipt(session, receipt)
    open_page(session, place / PAGE_FILE, headless)
    return code
