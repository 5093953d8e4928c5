"""The one way to print a document."""

from __future__ import annotations

import json
from typing import Any


def print_json(document: Any) -> None:
    """One document, one line."""
    print(json.dumps(document, ensure_ascii=False), flush=True)
