"""What happened in one run, line by line, and what was found wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from headrace.core.recount import Finding

ROUNDING_S = 1e-9
"""A store counts from another zero: a moment that is the same for both may differ in the last bits."""


class RunTrace:
    """Findings, and a fingerprint of the whole run: the same seed gives the same."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self._trace = hashlib.sha256()
        self.events = 0
        self.tell: Callable[[str], None] | None = None

    def note(self, at: float, *words: object) -> None:
        """One line of the trace."""
        self.events += 1
        line = f"{at:.6f} {words}"
        self._trace.update(line.encode())
        if self.tell is not None:
            self.tell(line)

    @property
    def fingerprint(self) -> str:
        return self._trace.hexdigest()

    def found(self, invariant: str, what: str, where: object) -> None:
        self.findings.append(Finding(invariant, what, str(where)))
