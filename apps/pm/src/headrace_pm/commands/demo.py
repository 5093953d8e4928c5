"""`headrace pm demo`: a network uploads, a process is killed, and both sinks are compared with the truth.

Nothing is installed and no server is needed: the file server is started with it, tables and Parquet files are in one
directory.
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
    files: Annotated[int, typer.Option(min=12, max=5_000, help="How many files, one in three with a fault.")] = 48,
    counters: Annotated[int, typer.Option(min=100, max=100_000, help="In each of them.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed, the same files.")] = 0,
    folder: DemoFolder = None,
    headless: Headless = False,
) -> int:
    """Take in the files of a network from an FTP server, kill a process with -9 in the middle, and compare.

    Some files are uploaded in two halves, some again with other values, some can never be read. The receipt is read
    from the table and the Parquet files, and compared with what the generator meant, row for row; a page shows what
    happened. Needs no server.
    """
    import asyncio
    from dataclasses import replace

    from headrace.errors import Conflict, MissingExtra
    from headrace.pages import save
    from headrace_pm.network.generated_folder import FolderPlan

    try:
        from headrace_pm.demo.page import receipt_page
        from headrace_pm.demo.story import CounterStory
    except ModuleNotFoundError as error:
        raise MissingExtra(f"pm demo needs {error.name}", "pip install 'headrace-pm[demo]'") from None

    session = of(context)
    place = demo_folder(folder, "pm").absolute()
    if any(place.iterdir()):
        raise Conflict(f"{place} is not empty", "name another directory: an earlier demo's files would be counted too")
    share = files // 12
    plan = FolderPlan(files, counters, seed, packed=2 * share, half=share, corrupt=share, unknown=share, again=share)
    story = CounterStory(place, environment_without("PM_", "REDIS_"), session.say)
    receipt = replace(asyncio.run(story.tell(plan)), page=str(place / PAGE_FILE))
    save(receipt_page(receipt, story), place / PAGE_FILE)
    code = answer_receipt(session, receipt)
    open_page(session, place / PAGE_FILE, headless)
    return code
