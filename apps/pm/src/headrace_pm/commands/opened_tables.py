"""What commands for operators work on: the tables of the settings, opened for one piece of work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from headrace.tables import OpenTables
    from headrace_pm.settings import PmSettings

T = TypeVar("T")


def settings_now() -> PmSettings:
    """The settings of the environment."""
    from headrace_pm.frame import FRAME

    return FRAME.load(os.environ)


def on_tables(work: Callable[[OpenTables], Awaitable[T]], create: bool = False) -> T:
    """Run one piece of work on the tables; only with `create` may this make what is missing of them."""
    from headrace_pm.work.pipeline import made_tables_of, tables_of

    settings = settings_now()
    opening = tables_of if create else made_tables_of

    async def whole() -> T:
        async with opening(settings) as tables:
            return await work(tables)

    return asyncio.run(whole())
