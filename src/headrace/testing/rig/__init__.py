"""Real servers: on loopback, a private port and a directory of their own, and gone with the process that started them.

with rig.new_server("redis") as redis, rig.Proxy(redis.url) as proxy: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.rig.proxy import Proxy as Proxy
    from headrace.testing.rig.server import Server as Server

__all__ = ["new_server", "Proxy"]


def new_server(name: str, settings: Mapping[str, str] | None = None) -> Server:
    """A server by its name in the catalogue, which `with` starts and, at its end, removes with its data."""
    from headrace.testing.rig.catalogue import server_class

    return server_class(name)(settings)


def __getattr__(name: str) -> Any:
    if name == "Proxy":
        from headrace.testing.rig.proxy import Proxy

        return Proxy
    raise AttributeError(f"headrace.testing.rig has no {name!r}")
