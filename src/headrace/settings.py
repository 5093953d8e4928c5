"""What a surface needs to know before it can do anything, read once at the edge and frozen.

A flag beats the environment (`HEADRACE_STORE`), which beats `headrace.toml` in the current directory
(or the file that `HEADRACE_CONFIG` names). What is not said has a default that works.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.claims import HOLD_S
from headrace.core.errors import CallerError

CONFIG_FILE = "headrace.toml"
PROCESSES_MAX = 256


@dataclass(frozen=True, slots=True)
class Settings:
    """`store` is where the account is kept, `hold_s` how long a claim lives without a renewal, `drain_s` how
    long a worker may take to finish what it has started."""

    store: str = "sqlite:///headrace.db"
    tenant: str = "default"
    hold_s: float = HOLD_S
    processes: int = 1
    drain_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.store:
            raise CallerError("store is empty", "write --store sqlite:///headrace.db, or leave it out")
        if not self.tenant:
            raise CallerError("tenant is empty", "leave it out to use 'default'")
        _between("hold_s", self.hold_s, 0.1, 86_400)
        _between("processes", self.processes, 1, PROCESSES_MAX)
        _between("drain_s", self.drain_s, 0, 86_400)


def load(flags: Mapping[str, Any], environment: Mapping[str, str], directory: Path) -> Settings:
    """Settings by precedence; a flag that is None was not given."""
    values: dict[str, Any] = {}
    for name, parse in _FIELDS.items():
        variable = f"HEADRACE_{name.upper()}"
        for source, value in (
            (f"--{name.replace('_', '-')}", flags.get(name)),
            (variable, environment.get(variable)),
        ):
            if value is not None:
                values.setdefault(name, _parsed(parse, value, source))
    for name, value in _file(environment, directory).items():
        if name not in _FIELDS:
            raise CallerError(f"{CONFIG_FILE} sets {name!r}, which is no setting", f"settings: {', '.join(_FIELDS)}")
        values.setdefault(name, _parsed(_FIELDS[name], value, f"{CONFIG_FILE}: {name}"))
    return Settings(**values)


def _file(environment: Mapping[str, str], directory: Path) -> dict[str, Any]:
    named = environment.get("HEADRACE_CONFIG")
    path = Path(named) if named else directory / CONFIG_FILE
    if named is None and not path.exists():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallerError(f"cannot read {path}: {error.strerror}", "correct HEADRACE_CONFIG or remove it") from None
    except ValueError as error:
        raise CallerError(f"{path} is not TOML: {error}") from None


def _parsed(parse: Callable[[Any], Any], value: Any, source: str) -> Any:
    try:
        if isinstance(value, bool):
            raise ValueError(value)
        return parse(value)
    except (TypeError, ValueError):
        kind = {float: "number", int: "whole number"}.get(parse, "text")  # type: ignore[call-overload]
        raise CallerError(f"{source} = {value!r} is not a {kind}") from None


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise CallerError(f"{name} = {value:g} is not between {low:g} and {high:g}")


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "store": str,
    "tenant": str,
    "hold_s": float,
    "processes": int,
    "drain_s": float,
}
