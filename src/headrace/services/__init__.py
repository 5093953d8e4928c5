"""The frame of a service: what every program on headrace does alike, so that a service only writes what it does.

Names are loaded when they are first used; nothing here costs anything before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.services.leader import NamedLease as NamedLease
    from headrace.services.leader import Term as Term
    from headrace.services.leader import leader as leader
    from headrace.services.settings import Sources as Sources
    from headrace.services.settings import read as read
    from headrace.services.settings import setting as setting
    from headrace.services.settings import table as table

_NAMES = {
    "leader": ("NamedLease", "Term", "leader"),
    "settings": ("Sources", "read", "setting", "table"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.services' has no attribute {name!r}")
    return getattr(importlib.import_module(f"headrace.services.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
