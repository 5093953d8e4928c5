"""What every command has at hand: settings, a place for data and a place for talk.

Data goes to stdout, one JSON document with `--json`; everything said on the way goes to stderr.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from headrace.cli.output import print_json
from headrace.core.errors import NotFound

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.runtime.engine import Engine
    from headrace.settings import Settings

T = TypeVar("T")
PIPE_WIDTH = 1_000


@dataclass(frozen=True, slots=True)
class Session:
    """The options that work with every command."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    json: bool = False
    debug: bool = False

    def settings(self, **flags: Any) -> Settings:
        """Settings with this command's own flags on top."""
        from headrace.settings import load

        return load({**self.flags, **flags}, os.environ, Path.cwd())

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        from headrace.wiring import connect

        async with connect(self.settings().store) as engine:
            yield engine

    def call(self, work: Callable[[Engine], Awaitable[T]], create: bool = False) -> T:
        """Run one piece of work against the store; only with `create` may this make a new one."""
        import asyncio

        from headrace.wiring import missing

        url = self.settings().store
        if not create and missing(url):
            raise NotFound(
                f"there is no store at {url}", "headrace jobs submit … makes one, or name another by --store"
            )

        async def whole() -> T:
            async with self.engine() as engine:
                return await work(engine)

        return asyncio.run(whole())

    def answer(self, document: Any, show: Callable[[Console], None]) -> None:
        """The command's data: a JSON document, or what `show` makes of it for people."""
        if self.json:
            print_json(document)
            return
        from rich.console import Console

        # Whoever reads from a pipe gets whole lines: an id that is cut off is of no use to anybody.
        show(Console(highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH))

    def say(self, text: str) -> None:
        # What cannot be said (its reader has gone, its disk is full) must not end a supervisor.
        with suppress(OSError):
            print(text, file=sys.stderr, flush=True)


def of(context: typer.Context) -> Session:
    """The session of this command."""
    session = context.obj
    assert isinstance(session, Session)
    return session
