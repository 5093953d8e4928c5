"""A RabbitMQ cluster on one machine: nodes that can be killed and come back one by one.

The nodes find each other through one epmd, which belongs to none of them. The first node is alone when it is started
for the first time, the others join it; from then on each knows the cluster from its own disk.
"""

from __future__ import annotations

import secrets
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from headrace.core.errors import OperatorError
from headrace.testing.rig.cluster import ServerCluster, all_at_once
from headrace.testing.rig.rabbitmq import PROGRAM, SYSTEM_PATH, BrokerPlace, RabbitServer
from headrace.testing.rig.server import READY_S_MAX, Server

ANSWER_S_MAX = 5.0
NAMES_REQUEST = b"n"


class NameServer(Server):
    """The epmd of one cluster."""

    name: ClassVar[str] = "epmd"
    needs = (PROGRAM,)
    user = RabbitServer.user

    @property
    def url(self) -> str:
        return f"epmd://127.0.0.1:{self.port}"

    def command(self, settings: Mapping[str, str]) -> Sequence[str]:
        return ["epmd", "-address", "127.0.0.1", "-port", str(self.port), *settings]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PATH": SYSTEM_PATH}

    def ask(self) -> None:
        """Which nodes it knows; the answer begins with its own port."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S_MAX) as stream:
            stream.sendall(struct.pack(">H", len(NAMES_REQUEST)) + NAMES_REQUEST)
            if stream.recv(4) != struct.pack(">I", self.port):
                raise ConnectionError("this is not our epmd")


class RabbitCluster(ServerCluster[RabbitServer]):
    """So many nodes and their name server."""

    def __init__(self, settings: Mapping[str, str] | None = None, nodes: int = 2) -> None:
        self._names = NameServer()
        cookie = secrets.token_hex(16)
        known = [f"rabbit{number}@127.0.0.1" for number in range(1, nodes + 1)]
        self.nodes = [
            RabbitServer(settings, BrokerPlace(name, cookie, self._names.port, tuple(known[:before])))
            for before, name in enumerate(known)
        ]
        self._is_formed = False

    def start(self) -> Self:
        if not self._names.running:
            self._names.start()
        down = [node for node in self.nodes if not node.running]
        if self._is_formed:
            # A node that was not the last to go waits for the others, so they are started together.
            all_at_once([node.start for node in down])
        else:
            for node in down:
                node.start()
        self.wait_ready()
        self._is_formed = True
        return self

    def wait_ready(self, timeout_s: float = READY_S_MAX) -> None:
        deadline = time.monotonic() + timeout_s
        running = [node for node in self.nodes if node.running]
        for node in running:
            node.wait_ready(timeout_s)
        wanted = {node.node for node in running}
        while any((seen := node.running_nodes()) != wanted for node in running):
            if time.monotonic() > deadline:
                raise OperatorError(f"the cluster is {sorted(seen)} instead of {sorted(wanted)}\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        super().stop()
        self._names.stop()

    def kill(self) -> None:
        super().kill()
        self._names.kill()

    def remove(self) -> None:
        super().remove()
        self._names.remove()

    def memory(self) -> int:
        return super().memory() + self._names.memory()
