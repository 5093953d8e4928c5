"""The tables of pm: the files of a foreign contract, who works on them, dictionaries, and the counters themselves.

    async with open_tables(dsn, PM_TABLES) as tables: ...

What other programs made before is adopted as it is; `adoption.examined` says where that is weaker than ours.
"""

from headrace.tables import Statements

PM_TABLES = Statements("headrace_pm.tables", repeatable=True)
"""Every statement may be run twice: values are absolute, and a hold or settlement knows its own repeat."""

__all__ = ["PM_TABLES"]
