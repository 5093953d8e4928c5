"""Who is production: the old system with a shadow beside it, or pm; the checks before the change, and the way back.

It is one row of `pm_cutover`, which every process of pm reads. While it says `shadow`, only the shadow runs on this
database: nobody moves files that the old system waits for. An installation without that row has no old system.
"""

from headrace.tables import Statements

CUTOVER_TABLES = Statements("headrace_pm.cutover")

__all__ = ["CUTOVER_TABLES"]
