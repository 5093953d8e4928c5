"""The change from the old system to pm, and the way back: one row of `pm_cutover` each, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.commands import Check
from headrace.errors import Conflict, SchemaMismatch
from headrace_pm.cutover.checks import NO_SHADOW, CutoverPlan, open_checks
from headrace_pm.cutover.mode import ProductionMode, open_record
from headrace_pm.settings import PmSettings
from headrace_pm.shadow.service import shadow_settings
from headrace_pm.work.pipeline import tables_of

BAD = "bad"


@dataclass(frozen=True, slots=True)
class Changeover:
    """What the checks found, and whether pm is production now."""

    checks: Sequence[Check]
    changed: bool

    @property
    def may_change(self) -> bool:
        return all(check.state != BAD for check in self.checks)

    @property
    def words(self) -> str:
        if self.changed:
            return "pm is production: start `headrace pm all`; `headrace pm cutover --rollback` goes back"
        if self.may_change:
            return "every check is good, and nothing was changed"
        return "nothing was changed"


async def changed_over(settings: PmSettings, plan: CutoverPlan, only_check: bool = False) -> Changeover:
    """Check, and change over if all is good."""
    try:
        async with open_checks(settings) as (checks, record):
            found = Changeover(await checks.made(plan), changed=False)
            if only_check or not found.may_change:
                return found
            note = json.dumps([f"{check.name}: {check.found}" for check in found.checks], ensure_ascii=False)
            async with tables_of(settings):
                await record.begin_versions_above(await record.highest_version())
            await record.change(ProductionMode.PRODUCTION, note)
            return Changeover(found.checks, changed=True)
    except SchemaMismatch:
        return Changeover([NO_SHADOW], changed=False)


async def rolled_back(settings: PmSettings) -> str:
    """The old system is production again. `Conflict` if it is anyway."""
    async with open_record(shadow_settings(settings)) as record:
        row = await record.now()
        if row is None or row.mode is not ProductionMode.PRODUCTION:
            raise Conflict("pm is not production after a cutover here", "there is nothing to go back from")
        await record.change(ProductionMode.SHADOW, "rolled back")
    return "the old system is production again: `headrace pm all` ends by itself, then start the old system"
