"""What people in the operations room ask for: dictionaries in, files and gaps out, counters that nobody wanted, KPIs.

    async with open_tables(dsn, [PM_TABLES, OPERATOR_TABLES]) as tables: ...

The tables of this package have migrations of their own, beside those of the pipeline, which does not need them.
"""

from headrace.tables import Statements

OPERATOR_TABLES = Statements("headrace_pm.operators")
"""A unit of these is marked: sums are added to, so a statement that is run twice would count twice."""

__all__ = ["OPERATOR_TABLES"]
