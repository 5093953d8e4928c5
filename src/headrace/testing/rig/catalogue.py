"""The servers and tools the rig knows. A further server is one file with its class, and one line here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from headrace.core.errors import NotFound
from headrace.testing.rig.needs import DebianPackage, GoFile, Need, WheelFile
from headrace.testing.rig.server import Server

SERVERS = {
    "postgres": "postgres:PostgresServer",
    "postgres15": "postgres:Postgres15Server",
    "redis": "redis:RedisServer",
    "rabbitmq": "rabbitmq:RabbitServer",
    "cassandra": "cassandra:CassandraServer",
    "s3": "s3:S3Server",
    "prometheus": "prometheus:PrometheusServer",
    "smtp": "smtp:SmtpServer",
    "mariadb": "mariadb:MariaServer",
    "kafka": "kafka:KafkaServer",
    "ftp": "ftp:FtpServer",
    "vsftpd": "vsftpd:VsftpdServer",
    "sftp": "sftp:SftpServer",
    "clickhouse": "clickhouse:ClickHouseServer",
}
TOOLS: dict[str, Need] = {
    "chromium": DebianPackage("chromium", "", "chromium"),
    "node": DebianPackage("nodejs", "", "node"),
    "strace": DebianPackage("strace", "6.1", "strace"),
    "libfaketime": DebianPackage("libfaketime", "0.9.10", "/usr/lib/*/faketime/libfaketime.so.1"),
    # Looks for what keeps people out of a page. The wheel is for another browser's driver; of it we need one file.
    "axe-core": WheelFile(
        "axe-core",
        "4.12.1",
        "axe-playwright-python==0.1.8",
        "axe_playwright_python/axe.min.js",
        "fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8",
    ),
    "compose-schema": GoFile(
        "compose-schema",
        "2.16.2",
        "github.com/compose-spec/compose-go/v2@v2.16.2",
        "schema/compose-spec.json",
        "h1:pTp1DqQwJzFd85GzlWsSszKA1ABrV/ySqsClujIcWA8=",
    ),
}


def server_class(name: str) -> type[Server]:
    """The class of a server by its name; only its own file is imported."""
    if name not in SERVERS:
        raise NotFound(f"the rig has no server {name!r}", f"it has: {', '.join(SERVERS)}")
    module, _, attribute = SERVERS[name].partition(":")
    found: type[Server] = getattr(import_module(f"headrace.testing.rig.{module}"), attribute)
    return found


def needs_of(name: str) -> tuple[Need, ...]:
    """What a server or a tool needs on the machine."""
    if name in TOOLS:
        return (TOOLS[name],)
    if name not in SERVERS:
        raise NotFound(f"the rig has no {name!r}", f"it has: {', '.join((*SERVERS, *TOOLS))}")
    return server_class(name).needs


def tool_path(name: str) -> Path:
    """Where a tool is; an error that says how to get it if it is not here."""
    if name not in TOOLS:
        raise NotFound(f"the rig has no tool {name!r}", f"it has: {', '.join(TOOLS)}")
    return TOOLS[name].path()
