"""A module that does nothing, to measure everything else."""

from __future__ import annotations

from headrace_smap.analytics.modules.drafts import Draft
from headrace_smap.analytics.modules.pipelines import ModuleOptions


class Nothing:
    """Leaves every draft as it is."""

    name = "nothing"
    version = "1"

    def __init__(self, options: ModuleOptions) -> None:
        del options

    def apply(self, draft: Draft) -> None:
        """Nothing."""
