"""What a surface needs to know before it can do anything, read once at the edge and frozen.

A flag beats the environment (`HEADRACE_STORE`), which beats `headrace.toml` in the current directory
(or the file that `HEADRACE_CONFIG` names). What is not said has a default that works.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.claims import HOLD_S
from headrace.core.errors import CallerError
from headrace.services.settings import Sources, help_of, read, setting

CONFIG_FILE = "headrace.toml"
PREFIX = "HEADRACE_"
PROCESSES_MAX = 256
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the command line."""

    store: str = setting("sqlite:///headrace.db", "where the account is kept")
    tenant: str = setting("default", "whose jobs")
    hold_s: float = setting(HOLD_S, "seconds that a claim lives without a renewal", low=0.1, high=DAY_S)
    processes: int = setting(1, "how many worker processes", low=1, high=PROCESSES_MAX)
    drain_s: float = setting(30.0, "seconds that a worker has to finish what it has started", low=0.0, high=DAY_S)

    def __post_init__(self) -> None:
        if not self.store:
            raise CallerError("store is empty", "write --store sqlite:///headrace.db, or leave it out")
        if not self.tenant:
            raise CallerError("tenant is empty", "leave it out to use 'default'")


def load(flags: Mapping[str, Any], environment: Mapping[str, str], directory: Path) -> Settings:
    """Settings by precedence; a flag that is None was not given."""
    return read(Settings, Sources(PREFIX, environment, flags, _file(environment, directory), CONFIG_FILE))


def help_for(name: str) -> str:
    """The help of the flag of this name."""
    return help_of(Settings, PREFIX, name)


def _file(environment: Mapping[str, str], directory: Path) -> dict[str, Any]:
    named = environment.get("HEADRACE_CONFIG")
    path = Path(named) if named else directory / CONFIG_FILE
    if not named and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallerError(f"cannot read {path}: {error.strerror}", "correct HEADRACE_CONFIG or remove it") from None
    except ValueError as error:
        raise CallerError(f"{path} is not TOML: {error}") from None
