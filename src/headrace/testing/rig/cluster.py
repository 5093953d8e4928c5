"""Several nodes of one server on one machine: the verbs of a server for all at once, and each node with its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, Self, TypeVar

from headrace.testing.rig.server import Server

Node = TypeVar("Node", bound=Server)


class ServerCluster(ABC, Generic[Node]):
    """A node of `nodes` may be killed, paused and started again while the others go on."""

    nodes: Sequence[Node]

    @abstractmethod
    def start(self) -> Self:
        """Start the nodes that do not run; returns when all are one cluster."""

    @abstractmethod
    def wait_ready(self) -> None:
        """Until every node that runs sees all the others that do, and no more."""

    @property
    def url(self) -> str:
        return self.nodes[0].url

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes]

    @property
    def running(self) -> bool:
        return all(node.running for node in self.nodes)

    def stop(self) -> None:
        all_at_once([node.stop for node in self.nodes])

    def kill(self) -> None:
        """SIGKILL all nodes, as a power cut would."""
        all_at_once([node.kill for node in self.nodes])

    def restart(self) -> Self:
        self.stop()
        return self.start()

    def pause(self) -> None:
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        for node in self.nodes:
            node.resume()

    def remove(self) -> None:
        """Kill all of it and forget everything."""
        for node in self.nodes:
            node.remove()

    def log(self) -> str:
        return "\n".join(f"node {number}:\n{node.log()}" for number, node in enumerate(self.nodes, 1))

    def memory(self) -> int:
        return sum(node.memory() for node in self.nodes)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()


def all_at_once(calls: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(max(1, len(calls))) as threads:
        for done in [threads.submit(call) for call in calls]:
            done.result()
