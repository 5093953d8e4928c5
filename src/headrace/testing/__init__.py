"""What headrace proves itself with, shipped so that others can prove theirs: contracts, a simulator, services
in processes to be killed, and the rig's servers for an application's `up --rig`.

Names are loaded when they are first used; those of the rig need `headrace[rig]`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.testing.http_receiver import HttpAnswer as HttpAnswer
    from headrace.testing.http_receiver import HttpReceiver as HttpReceiver
    from headrace.testing.http_receiver import HttpRequest as HttpRequest
    from headrace.testing.rig import new_server as new_server
    from headrace.testing.rig.cassandra import CassandraServer as CassandraServer
    from headrace.testing.rig.cassandra_cluster import CassandraCluster as CassandraCluster
    from headrace.testing.rig.catalogue import tool_path as tool_path
    from headrace.testing.rig.deaths import deaths_told as deaths_told
    from headrace.testing.rig.ftp import FtpServer as FtpServer
    from headrace.testing.rig.installation import obtain as obtain
    from headrace.testing.rig.ports import reserve_port as reserve_port
    from headrace.testing.rig.prometheus import PrometheusServer as PrometheusServer
    from headrace.testing.rig.proxy import Proxy as Proxy
    from headrace.testing.service_process import ServiceProcess as ServiceProcess

_HOMES = {
    "new_server": "rig",
    "obtain": "rig.installation",
    "reserve_port": "rig.ports",
    "CassandraServer": "rig.cassandra",
    "CassandraCluster": "rig.cassandra_cluster",
    "deaths_told": "rig.deaths",
    "FtpServer": "rig.ftp",
    "PrometheusServer": "rig.prometheus",
    "Proxy": "rig.proxy",
    "tool_path": "rig.catalogue",
    "ServiceProcess": "service_process",
    "HttpReceiver": "http_receiver",
    "HttpRequest": "http_receiver",
    "HttpAnswer": "http_receiver",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"headrace.testing.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
