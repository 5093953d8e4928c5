"""The frame of a service: what every program on headrace does alike, so that a service only writes what it does.

Names are loaded when they are first used; nothing here costs anything before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.core.backoff import Backoff as Backoff
    from headrace.core.checks import Check as Check
    from headrace.runtime.fenced import while_held as while_held
    from headrace.runtime.outages import CircuitBreaker as CircuitBreaker
    from headrace.runtime.pacing import Pauses as Pauses
    from headrace.runtime.programs import Program as Program
    from headrace.runtime.programs import worker_program as worker_program
    from headrace.runtime.relay import Relay as Relay
    from headrace.runtime.relay import RelayOptions as RelayOptions
    from headrace.services.causes import bare_errors as bare_errors
    from headrace.services.frame import Frame as Frame
    from headrace.services.frame import Talk as Talk
    from headrace.services.frame import export_lines as export_lines
    from headrace.services.http_settings import HttpSettings as HttpSettings
    from headrace.services.leadership import NamedLease as NamedLease
    from headrace.services.leadership import Term as Term
    from headrace.services.leadership import leader as leader
    from headrace.services.locks import LockClient as LockClient
    from headrace.services.locks import LockResult as LockResult
    from headrace.services.log_lines import log_to_stderr as log_to_stderr
    from headrace.services.service import Asked as Asked
    from headrace.services.service import Part as Part
    from headrace.services.service import Ready as Ready
    from headrace.services.service import Service as Service
    from headrace.services.service import SupervisedWorker as SupervisedWorker
    from headrace.services.service import serving as serving
    from headrace.services.settings import Sources as Sources
    from headrace.services.settings import read as read
    from headrace.services.settings import setting as setting
    from headrace.services.settings import table as table
    from headrace.services.settings import whole_environment as whole_environment
    from headrace.services.signals import Stopped as Stopped
    from headrace.services.signals import patiently as patiently
    from headrace.services.signals import rest as rest
    from headrace.services.signals import stopping as stopping
    from headrace.services.stop import Stop as Stop

_NAMES = {
    "services.service": ("Asked", "Part", "Ready", "Service", "SupervisedWorker", "serving"),
    "services.http_settings": ("HttpSettings",),
    "services.frame": ("Frame", "Talk", "export_lines"),
    "services.settings": ("Sources", "read", "setting", "table", "whole_environment"),
    "services.leadership": ("NamedLease", "Term", "leader"),
    "services.locks": ("LockClient", "LockResult"),
    "services.causes": ("bare_errors",),
    "services.signals": ("Stopped", "patiently", "rest", "stopping"),
    "services.stop": ("Stop",),
    "services.log_lines": ("log_to_stderr",),
    "runtime.programs": ("Program", "worker_program"),
    "runtime.pacing": ("Pauses",),
    "runtime.fenced": ("while_held",),
    "runtime.outages": ("CircuitBreaker",),
    "runtime.relay": ("Relay", "RelayOptions"),
    "core.backoff": ("Backoff",),
    "core.checks": ("Check",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.services' has no attribute {name!r}")
    return getattr(importlib.import_module(f"headrace.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
