"""Real servers: on loopback, a private port and a directory of their own, and gone with the process that started them.

with rig.new_server("redis") as redis, rig.Proxy(redis.url) as proxy: ...
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.rig.postgres import PostgresServer as PostgresServer
    from headrace.testing.rig.proxy import Proxy as Proxy
    from headrace.testing.rig.rabbitmq import RabbitServer as RabbitServer
    from headrace.testing.rig.redis import RedisServer as RedisServer
    from headrace.testing.rig.s3 import S3Server as S3Server
    from headrace.testing.rig.server import Server as Server

# Loaded when they are first used: each needs the driver of its server.
_HOMES = {
    "Proxy": "proxy",
    "Server": "server",
    "PostgresServer": "postgres",
    "RabbitServer": "rabbitmq",
    "RedisServer": "redis",
    "S3Server": "s3",
}

__all__ = ["new_server", *_HOMES]


def new_server(name: str, settings: Mapping[str, str] | None = None) -> Server:
    """A server by its name in the catalogue, which `with` starts and, at its end, removes with its data."""
    from headrace.testing.rig.catalogue import server_class

    return server_class(name)(settings)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"headrace.testing.rig has no {name!r}")
    return getattr(importlib.import_module(f"headrace.testing.rig.{_HOMES[name]}"), name)
