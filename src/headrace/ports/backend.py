"""What a URL opens: one handle that stores, operates and inspects."""

from __future__ import annotations

from typing import Protocol

from headrace.ports.inspector import Inspector
from headrace.ports.operations import Operations
from headrace.ports.store import Store


class Backend(Store, Operations, Inspector, Protocol):
    """Queue and account, the operators' verbs and the reads for people, over the same data."""
