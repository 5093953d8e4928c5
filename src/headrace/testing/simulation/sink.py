"""A simulated sink with the two operations of every sink, and a log of everything it was asked.

`once` takes the first application of a key and answers every repeat as the first, whatever its fence. `put` takes a
value unless a higher fence has written before.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class SimulatedSink:
    """`appended` lists every application of a key by `once`; `written` every fence that `put` accepted for a key."""

    appended: dict[str, list[int]] = field(default_factory=dict)
    written: dict[str, list[int]] = field(default_factory=dict)

    def once(self, key: str, fence: int) -> bool:
        """Whether this call was the one that was applied."""
        if key in self.appended:
            return False
        self.appended[key] = [fence]
        return True

    def put(self, key: str, fence: int) -> bool:
        fences = self.written.setdefault(key, [])
        if fences and fence < max(fences):
            return False
        fences.append(fence)
        return True
