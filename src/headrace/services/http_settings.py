"""What every service can be told; apart from the service, so that whoever reads settings imports nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.services.settings import setting

PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of every service; an application's own class inherits them."""

    http_host: str = setting(
        "127.0.0.1", "the address to listen on; one that others can reach needs an API key of 32 characters or more"
    )
    http_port: int | None = setting(None, "the port to listen on; 0: any that is free", low=0, high=PORT_MAX)
    api_key: str = setting("", "asked of every request", secret=True, without="none, and loopback only")
    wait_s: float = setting(60.0, "seconds to wait for servers that are not up yet", low=0.0)
