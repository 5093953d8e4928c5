"""A real RabbitMQ node with its management API, on loopback only.

The start script is told that somebody looks after it, so that it becomes the Erlang machine instead of staying as its
parent: the death signal reaches the machine itself. The node's name server, epmd, is started by the same shell and so
is a child of the machine, paused, killed and gone with it; no other epmd is ever started.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import signal
import socket
import struct
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, ClassVar
from urllib.parse import quote

from headrace.core.errors import OperatorError
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import DebianPackage
from headrace.testing.rig.server import Server

PROGRAM = DebianPackage("rabbitmq-server", "3.10", "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
ANSWER_S_MAX = 10.0
PLUGINS = "plugins"
# Another Erlang in front of the distribution's would not fit its RabbitMQ.
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
USER = "guest"
SMALL = {
    "disk_free_limit.absolute": "50MB",
    "vm_memory_high_watermark.absolute": "512MB",
    "num_acceptors.tcp": "2",
    "management.rates_mode": "none",
    # What the management API collects, such as consumers, is a second old at most instead of five.
    **{f"management.sample_retention_policies.{kind}.minute": "1" for kind in ("global", "basic", "detailed")},
    "log.console": "true",
    "log.console.use_colors": "off",
    "log.file": "false",
}
# epmd is started first and dies with the process that the shell becomes.
LAUNCH = 'setpriv --pdeathsig=KILL epmd -address 127.0.0.1 -port "$1" & exec "$2"'
START, START_OK, TUNE = (10, 10), (10, 11), (10, 30)
FRAME_END = b"\xce"
# Kind, channel and size of a frame, then the class and method it carries.
HEAD = struct.Struct(">BHIHH")


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where a node stands in a cluster, whose nodes share the cookie and one epmd; it joins `peers`, if any."""

    node: str
    cookie: str
    epmd_port: int
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """What one queue holds: `messages` are those that wait and those delivered but not acknowledged."""

    messages: int
    unacknowledged: int
    consumers: int


class RabbitServer(Server):
    """Settings are lines of rabbitmq.conf, `{"consumer_timeout": "10000"}`; `plugins` names further plugins."""

    name: ClassVar[str] = "rabbitmq"
    needs = (PROGRAM,)
    user = "rabbitmq"

    def __init__(self, settings: Mapping[str, str] | None = None, place: BrokerPlace | None = None) -> None:
        super().__init__(settings)
        self._management_port = self.reserve_port()
        self._distribution_port = self.reserve_port()
        self._is_alone = place is None
        self._place = place or BrokerPlace("rabbit@127.0.0.1", secrets.token_hex(16), self.reserve_port())

    @property
    def node(self) -> str:
        return self._place.node

    @property
    def url(self) -> str:
        return self.url_of("/")

    def url_of(self, vhost: str) -> str:
        return f"amqp://{USER}:{USER}@127.0.0.1:{self.port}/{quote(vhost, safe='')}"

    @property
    def management_url(self) -> str:
        return f"http://127.0.0.1:{self._management_port}"

    def variables(self, url: str) -> dict[str, str]:
        return {"AMQP_URL": url}

    def prepare(self) -> None:
        self.write(".erlang.cookie", self._place.cookie, 0o400)

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        lines = {**SMALL, **settings}
        plugins = ["rabbitmq_management", *lines.pop(PLUGINS, "").split()]
        lines |= {
            "listeners.tcp.1": f"127.0.0.1:{self.port}",
            "management.tcp.ip": "127.0.0.1",
            "management.tcp.port": str(self._management_port),
        }
        for number, peer in enumerate(self._place.peers, 1):
            lines[f"cluster_formation.classic_config.nodes.{number}"] = peer
        self.write("rabbitmq.conf", "".join(f"{name} = {value}\n" for name, value in lines.items()))
        self.write("enabled_plugins", f"[{','.join(plugins)}].\n")
        program = str(PROGRAM.path())
        return ["sh", "-c", LAUNCH, "sh", str(self._place.epmd_port), program] if self._is_alone else [program]

    def environment(self) -> dict[str, str]:
        return {
            **super().environment(),
            "PATH": SYSTEM_PATH,
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "enabled_plugins"),
            "RABBITMQ_FEATURE_FLAGS_FILE": str(self.home / "feature_flags"),
            "RABBITMQ_MNESIA_BASE": str(self.home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self.home / "log"),
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none -rabbit quorum_tick_interval 500",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._place.epmd_port),
            # For the short-lived machines too that RabbitMQ starts to see that there is an epmd.
            "ERL_FLAGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        }

    def ask(self) -> None:
        """A login by AMQP, and the node's own word through the management API that it runs."""
        _log_in(self.port)
        if self.node not in self.running_nodes():
            raise ConnectionError(f"{self.node} does not run yet")

    def _launch(self, command: Sequence[str]) -> Launch:
        # While it boots, Erlang hears no SIGTERM.
        return replace(super()._launch(command), death=signal.SIGKILL)

    def running_nodes(self) -> set[str]:
        """The nodes of the cluster that run, as this one sees it."""
        return {each["name"] for each in self.manage("GET", "nodes") if each["running"]}

    @contextlib.contextmanager
    def vhost(self) -> Iterator[str]:
        """The URL of a fresh virtual host, deleted with all that is in it at the end."""
        name = f"test-{secrets.token_hex(6)}"
        self.manage("PUT", f"vhosts/{name}", {})
        self.manage("PUT", f"permissions/{name}/{USER}", {"configure": ".*", "write": ".*", "read": ".*"})
        try:
            yield self.url_of(name)
        finally:
            # One that a test left dead takes its virtual hosts along when it is removed.
            if self.running:
                self.manage("DELETE", f"vhosts/{name}")

    def queues(self, vhost: str = "/") -> dict[str, Queue]:
        """What the queues of a virtual host hold; consumers and quorum queues as they were up to a second ago."""
        place = quote(vhost, safe="")
        consumers = Counter(each["queue"]["name"] for each in self.manage("GET", f"consumers/{place}"))
        found = self.manage("GET", f"queues/{place}?disable_stats=true&enable_queue_totals=true")
        return {
            # A queue whose node is down has no counts.
            each["name"]: Queue(
                each.get("messages", 0), each.get("messages_unacknowledged", 0), consumers[each["name"]]
            )
            for each in found
        }

    def close_connections(self) -> int:
        """End all clients' connections from the server's side; how many there were."""
        found = self.manage("GET", "connections?disable_stats=true")
        for each in found:
            with contextlib.suppress(FileNotFoundError):
                self.manage("DELETE", f"connections/{quote(each['name'], safe='')}")
        return len(found)

    def manage(self, method: str, path: str, body: object = None) -> Any:
        """One request to the management API; what it answers, None if nothing."""
        connection = http.client.HTTPConnection("127.0.0.1", self._management_port, timeout=ANSWER_S_MAX)
        login = b64encode(f"{USER}:{USER}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        try:
            connection.request(method, f"/api/{path}", None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except http.client.HTTPException as error:
            raise ConnectionError(f"RabbitMQ did not answer in full: {error!r}") from error
        finally:
            connection.close()
        if status == http.client.NOT_FOUND:
            raise FileNotFoundError(f"RabbitMQ has no {path}")
        if status >= http.client.INTERNAL_SERVER_ERROR:
            raise ConnectionError(f"RabbitMQ answers {status}: {answer[:200]!r}")
        if status >= http.client.BAD_REQUEST:
            raise OperatorError(f"RabbitMQ refuses {method} {path} with {status}: {answer[:500].decode()}")
        return json.loads(answer) if answer else None


def _log_in(port: int) -> None:
    """The AMQP handshake up to where the server has accepted name and password."""
    response = f"\0{USER}\0{USER}".encode()
    arguments = struct.pack(">I", 0) + b"\x05PLAIN" + struct.pack(">I", len(response)) + response + b"\x05en_US"
    payload = struct.pack(">HH", *START_OK) + arguments
    with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as stream, stream.makefile("rb") as replies:
        stream.sendall(b"AMQP\x00\x00\x09\x01")
        _expect(START, replies)
        stream.sendall(struct.pack(">BHI", 1, 0, len(payload)) + payload + FRAME_END)
        _expect(TUNE, replies)


def _expect(method: tuple[int, int], replies: IO[bytes]) -> None:
    """Read one frame, which must be this method."""
    head = replies.read(HEAD.size)
    if len(head) < HEAD.size:
        raise ConnectionError("RabbitMQ ended the connection during the login")
    _, _, size, *found = HEAD.unpack(head)
    if tuple(found) != method:
        raise ConnectionError(f"RabbitMQ answers the login with {found} instead of {method}")
    replies.read(size - 4 + len(FRAME_END))
