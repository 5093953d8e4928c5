"""Broken twins: a guard is taken away, and a test of the contract must notice.

A guard that no test needs goes away; a test that no twin turns red proves nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest


async def turns_red(test: Callable[..., Awaitable[None] | None], **fixtures: Any) -> None:
    """Run a test of a contract on a twin, with those of these fixtures that it takes; it must fail."""
    taken = {name: fixtures[name] for name in inspect.signature(test).parameters if name != "self"}
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        running = test(None, **taken)
        if running is not None:
            await running
