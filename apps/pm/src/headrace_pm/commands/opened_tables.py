"""What commands for operators work on: the tables of the settings, opened for one piece of work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import NotFound

if TYPE_CHECKING:
    from headrace.tables import OpenTables
    from headrace_pm.settings import PmSettings

T = TypeVar("T")


def settings_now() -> PmSettings:
    """The settings of the environment."""
    from headrace_pm.frame import FRAME

    return FRAME.load(os.environ)


def on_tables(work: Callable[[OpenTables], Awaitable[T]], create: bool = False) -> T:
    """Run one piece of work on the tables; only with `create` may this make a new file for them."""
    from headrace.tables import open_tables
    from headrace_pm.operators import OPERATOR_TABLES
    from headrace_pm.settings import DATABASE_FILE
    from headrace_pm.tables import PM_TABLES

    settings = settings_now()
    if settings.is_embedded and create:
        settings.home.mkdir(parents=True, exist_ok=True)
    elif settings.is_embedded and not (settings.home / DATABASE_FILE).exists():
        raise NotFound(
            f"there are no tables in {settings.home}",
            "PM_MYSQL_DSN or PM_HOME says where they are; headrace pm init makes them",
        )

    async def whole() -> T:
        async with open_tables(settings.tables_url, (PM_TABLES, OPERATOR_TABLES)) as tables:
            return await work(tables)

    return asyncio.run(whole())
