"""What the demos of applications have in common: where they leave things, what they must not hear, and a page."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.session import Session

DemoFolder = Annotated[Path | None, typer.Option("--to", help="Where to leave everything; else a new directory.")]
Headless = Annotated[bool, typer.Option("--headless", help="Do not open the page.")]


def demo_folder(named: Path | None, application: str) -> Path:
    """The directory that was named, or a new one that stays."""
    if named is None:
        return Path(tempfile.mkdtemp(prefix=f"headrace-{application}-"))
    named.mkdir(parents=True, exist_ok=True)
    return named


def environment_without(*prefixes: str) -> dict[str, str]:
    """The environment without settings of these prefixes: of those none shall change what is shown."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def open_page(session: Session, page: Path, headless: bool) -> None:
    """Show a page to whoever sits in front of it; a script has no use for it."""
    if headless or session.json or not sys.stdout.isatty():
        return
    import webbrowser

    webbrowser.open(page.absolute().as_uri())
