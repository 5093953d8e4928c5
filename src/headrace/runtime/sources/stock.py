"""What the last poll saw and nobody of this worker has tried yet, and when to poll again."""

from __future__ import annotations

from headrace.core.sources import ItemCandidate, Polled
from headrace.ports.seams import Chance

# More than there is room for: workers that see the same few rows would fight for the first of them.
COUNT_MIN = 32
# Workers that were started together do not poll together for ever.
JITTER = 0.25


class Stock:
    """Candidates in random order within their rank. `due`: poll at the next chance, whatever the pause says."""

    def __init__(self, chance: Chance, poll_s: float) -> None:
        self._chance, self._poll_s = chance, poll_s
        self._candidates: list[ItemCandidate] = []
        self._polled_at = self._next_at = 0.0
        self._full = False
        self.due = True
        # Whether something of the last poll was held: then there is work, and not only a fight for it.
        self.gained = False

    def begin(self, room: int) -> int:
        """A poll begins: how many candidates to ask for. What rings from here on asks for another one."""
        self.due = False
        return max(COUNT_MIN, 2 * room)

    def fill(self, polled: Polled, count_max: int, now: float) -> None:
        drawn = sorted(polled.candidates, key=lambda candidate: (-candidate.rank, self._chance.random()))
        self._candidates = drawn
        self._full, self.gained, self._polled_at = len(drawn) >= count_max, False, now
        pause_s = self._poll_s * (1 - JITTER * self._chance.random())
        self._next_at = now + (pause_s if polled.wait_s is None else min(pause_s, max(0.0, polled.wait_s)))

    def take(self, now: float) -> ItemCandidate | None:
        """The next candidate; None if there is none, or if what is left was seen too long ago."""
        if now - self._polled_at > self._poll_s:
            self._candidates.clear()
        return self._candidates.pop() if self._candidates else None

    def polls_in_s(self, now: float) -> float:
        """How long until the next poll. There may be more than a full answer holds."""
        if self.due or (self._full and self.gained):
            return 0.0
        return max(0.0, self._next_at - now)

    def clear(self) -> None:
        self._candidates.clear()
