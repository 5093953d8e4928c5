"""One look at a folder: what is listed, what of it is new, what came again, what must wait.

The look changes nothing. Whoever registers what is ready says so (`registered`), table first; then Redis may know.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headrace_pm.ftp.gate import ReadyGate, is_unfinished
from headrace_pm.ftp.listings import ListedFile
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.pool import ServerLane, ServerPool
from headrace_pm.ftp.seen import FileRegister, SeenNames
from headrace_pm.ftp.servers import ServerFolder
from headrace_pm.ftp.stamps import Stamp

# How long a name that Redis knows is believed to have a row: 5,000 names cost the table a tenth of a second.
CHECK_S = 300.0


@dataclass(frozen=True, slots=True)
class Scanned:
    """What one look found. `new` and `changed` are ready to be registered."""

    new: tuple[ListedFile, ...]
    changed: tuple[ListedFile, ...]
    """Known names whose size or moment is another one: perhaps a new revision, which the content's hash settles."""
    listed_count: int
    waiting_count: int
    empty_count: int
    unfinished_count: int
    refused: Counter[NameFault]
    seconds: float


class FolderScanner:
    """Looks at one folder again and again; what it must remember of a look is in memory and bounded by the listing."""

    def __init__(  # noqa: PLR0913
        self,
        folder: ServerFolder,
        pool: ServerPool,
        seen: SeenNames,
        register: FileRegister,
        gate: ReadyGate | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self._pool, self._seen, self._register = folder, pool, seen, register
        self.gate, self._now = gate or ReadyGate(), now
        self._stamps: dict[str, Stamp] = {}
        """Of files that are known, as they were when they were registered."""
        self._check_at = 0.0

    async def scan(self) -> Scanned:
        """One look."""
        began = self._now()
        async with self._pool.session(ServerLane.SCAN) as session:
            listing = await session.listing(self.folder.on_server)
        files = [file for file in listing.files if not is_unfinished(file.name)]
        new_names = await self._seen.new_of(self.folder, [file.text for file in files])
        new_names |= await self._without_rows([file.text for file in files if file.text not in new_names])
        known = [file for file in files if file.text not in new_names]
        changed_names = {file.text for file in await self._changed(known)}
        candidates = [file for file in files if file.text in new_names or file.text in changed_names]
        passed = self.gate.passed(candidates, self._now())
        return Scanned(
            new=tuple(file for file in passed.ready if file.text in new_names),
            changed=tuple(file for file in passed.ready if file.text in changed_names),
            listed_count=len(listing.files),
            waiting_count=passed.waiting_count,
            empty_count=passed.empty_count,
            unfinished_count=len(listing.files) - len(files),
            refused=Counter(each.fault for each in listing.refused),
            seconds=self._now() - began,
        )

    async def registered(self, files: Sequence[ListedFile]) -> None:
        """Their rows are in the table."""
        await self._seen.add(self.folder, [file.text for file in files])
        self._stamps.update((file.text, file.stamp) for file in files)
        self.gate.forget(file.name for file in files)

    async def _without_rows(self, known: Sequence[str]) -> set[str]:
        """Names that Redis knows and the table does not, asked now and then: somebody has deleted their rows, or set
        the table back to a backup. They would be passed over for ever, so Redis forgets them."""
        if not known or self._now() < self._check_at:
            return set()
        found = await self._register.unknown(self.folder, known)
        if found:
            await self._seen.remove(self.folder, found)
        self._check_at = self._now() + CHECK_S
        return found

    async def _changed(self, known: Sequence[ListedFile]) -> list[ListedFile]:
        strange = [file.text for file in known if file.text not in self._stamps]
        found = await self._register.stamps(self.folder, strange) if strange else {}
        before = self._stamps
        # What the table has no stamp of is taken as it is listed now.
        self._stamps = {file.text: before.get(file.text) or found.get(file.text) or file.stamp for file in known}
        return [file for file in known if not file.stamp.agrees_with(self._stamps[file.text])]
