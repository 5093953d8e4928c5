"""What the environment says. Read once, at the edge; every part that is not named has its embedded form.

A setting that cannot work is refused with its name; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from headrace.errors import CallerError
from headrace_smap.envelope import ANALYTICS_QUEUE

T = TypeVar("T")
HTTP_PORTS = {"project": 8081, "collector": 8082, "analytics": 8083, "insight": 8084}
PREFETCH_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that all services share. What only one part knows it reads from `environment` by itself."""

    home: Path = Path("smap-data")
    amqp_url: str = field(default="", repr=False)
    redis_url: str = field(default="", repr=False)
    s3_url: str = field(default="", repr=False)
    pg_dsn: str = field(default="", repr=False)
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    api_key: str = field(default="", repr=False)
    queue: str = ANALYTICS_QUEUE
    prefetch: int = 200
    workers: int = 4
    seal_idle_s: float | None = None
    reconcile_s: float = 1.0
    posts_max: int = 1_000_000
    wait_s: float = 60.0
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def engine_url(self) -> str:
        """Where headrace's own account is kept."""
        return self.pg_dsn or f"sqlite:///{self.home / 'headrace.db'}"


def load(environment: Mapping[str, str], **given: Any) -> Settings:
    """Settings of the environment, with what a command was given on top."""
    seal_idle_s = number(environment, "SMAP_SEAL_IDLE_S", float, 0.0, 0.0)
    settings = Settings(
        home=Path(environment.get("SMAP_HOME") or "smap-data"),
        amqp_url=environment.get("SMAP_AMQP_URL", ""),
        redis_url=environment.get("SMAP_REDIS_URL", ""),
        s3_url=environment.get("SMAP_S3_URL", ""),
        pg_dsn=_dsn(environment),
        http_host=environment.get("SMAP_HTTP_HOST") or "127.0.0.1",
        http_port=_port(environment),
        api_key=environment.get("SMAP_API_KEY", ""),
        queue=environment.get("SMAP_QUEUE") or ANALYTICS_QUEUE,
        prefetch=number(environment, "SMAP_PREFETCH", int, 200, 1, PREFETCH_MAX),
        workers=number(environment, "SMAP_WORKERS", int, 4, 1, 1_000),
        seal_idle_s=seal_idle_s or None,
        reconcile_s=number(environment, "SMAP_RECONCILE_S", float, 1.0, 0.01),
        posts_max=number(environment, "SMAP_POSTS_MAX", int, 1_000_000, 1),
        wait_s=number(environment, "SMAP_WAIT_S", float, 60.0, 0.0),
        environment=dict(environment),
    )
    known = {name: getattr(settings, name) for name in Settings.__dataclass_fields__}
    return Settings(**{**known, **{name: value for name, value in given.items() if value is not None}})


def _dsn(environment: Mapping[str, str]) -> str:
    """A URL only: the store of headrace would take the other form, `host=… password=…`, for the name of a file."""
    dsn = environment.get("SMAP_PG_DSN", "")
    if dsn and not dsn.startswith(("postgresql://", "postgres://")):
        raise CallerError(
            "SMAP_PG_DSN is not the URL of a PostgreSQL", "write postgresql://user:password@host/database"
        )
    return dsn


def _port(environment: Mapping[str, str]) -> int | None:
    if not environment.get("SMAP_HTTP_PORT"):
        return None
    return number(environment, "SMAP_HTTP_PORT", int, 0, 0, 65_535)


def number(environment: Mapping[str, str], name: str, kind: Callable[[str], T], default: T, *limits: float) -> T:
    """A number by its name, within its limits (the higher one may be missing); the default if it is not set."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    low, high = limits[0], limits[1] if len(limits) > 1 else float("inf")
    try:
        if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text):
            raise ValueError
        value = kind(text)
    except ValueError:
        raise CallerError(f"{name}={text!r} is not a number of its kind", f"from {low:g} to {high:g}") from None
    if not low <= float(text) <= high:
        raise CallerError(f"{name}={text} is out of its range", f"from {low:g} to {high:g}")
    return value
