"""The graph of a flow: what feeds what, in an order in which every arrow points forward.

A job keeps the graph it was submitted with. Positions are indexes into `Graph.stages`, which are in
topological order, so closing a stage only ever touches stages further down.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any

from headrace.core.errors import InvalidFlow, UnknownStage
from headrace.core.tally import Tolerance

STAGES_MAX = 200
NAME_CHARS_MAX = 100


class Kind(StrEnum):
    """How the items of a stage come about and who ends them."""

    WORK = "work"
    BARRIER = "barrier"
    EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class StageSpec:
    """One stage as its job remembers it.

    `feeds` names the stages it may send to (itself included, for a stage that feeds itself up to
    `depth_max` deep). `after` makes it a barrier: one item, when all those have closed.
    """

    name: str
    kind: Kind = Kind.WORK
    feeds: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    depth_max: int | None = None
    unique: bool = False
    tolerate: Tolerance = field(default_factory=Tolerance)
    stop_early: bool = False
    always: bool = False
    every_generation: bool = True
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """Stages in topological order, with their arrows as positions."""

    stages: tuple[StageSpec, ...]

    @classmethod
    def build(cls, specs: Iterable[StageSpec]) -> Graph:
        """Order the stages, or refuse with words: unknown names, cycles with their path, no root."""
        by_name: dict[str, StageSpec] = {}
        for spec in specs:
            if not spec.name or len(spec.name) > NAME_CHARS_MAX or "/" in spec.name:
                raise InvalidFlow(f"stage name {spec.name!r} must have 1 to {NAME_CHARS_MAX} characters and no slash")
            if spec.name in by_name:
                raise InvalidFlow(f"two stages are called {spec.name!r}")
            by_name[spec.name] = spec
        if not 0 < len(by_name) <= STAGES_MAX:
            raise InvalidFlow(f"a flow has 1 to {STAGES_MAX} stages, this one has {len(by_name)}")
        for spec in by_name.values():
            _check_names(spec, by_name)
        graph = cls(tuple(by_name[name] for name in _ordered(by_name)))
        if not graph.roots:
            raise InvalidFlow("no stage can take a submitted item: all are fed by others")
        return graph

    @property
    def roots(self) -> tuple[str, ...]:
        """Stages that only a submit can fill."""
        fed = {target for spec in self.stages for target in spec.feeds if target != spec.name}
        return tuple(s.name for s in self.stages if s.kind is Kind.WORK and s.name not in fed)

    def position(self, name: str) -> int:
        for position, spec in enumerate(self.stages):
            if spec.name == name:
                return position
        known = ", ".join(s.name for s in self.stages)
        raise UnknownStage(f"there is no stage {name!r}", f"the stages are: {known}")

    def arrows(self, position: int) -> tuple[int, ...]:
        """Positions whose seal waits for this stage to close."""
        name = self.stages[position].name
        return tuple(
            index
            for index, spec in enumerate(self.stages)
            if index != position and (name in spec.after or spec.name in self.stages[position].feeds)
        )

    def feeders(self, position: int) -> int:
        """How many other stages must close before this one is sealed."""
        return sum(position in self.arrows(index) for index in range(len(self.stages)))

    def upstream(self, position: int) -> frozenset[int]:
        """Positions of all stages from which an arrow leads here, over any number of others."""
        found: set[int] = set()
        for candidate in range(position - 1, -1, -1):
            if any(target == position or target in found for target in self.arrows(candidate)):
                found.add(candidate)
        return frozenset(found)

    def dump(self) -> str:
        return json.dumps([asdict(spec) for spec in self.stages], separators=(",", ":"), sort_keys=True)

    @classmethod
    def load(cls, text: str) -> Graph:
        return cls(tuple(_spec(entry) for entry in json.loads(text)))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.dump().encode()).hexdigest()[:32]


def _spec(entry: dict[str, Any]) -> StageSpec:
    known = {k: v for k, v in entry.items() if k in StageSpec.__dataclass_fields__}
    known["kind"] = Kind(known["kind"])
    known["feeds"], known["after"] = tuple(known["feeds"]), tuple(known["after"])
    known["tolerate"] = Tolerance(**known["tolerate"])
    return StageSpec(**known)


def _check_names(spec: StageSpec, known: dict[str, StageSpec]) -> None:
    for name in (*spec.feeds, *spec.after):
        if name not in known:
            raise UnknownStage(f"stage {spec.name!r} names {name!r}, which is not a stage of this flow")
    for name in spec.feeds:
        if known[name].kind is not Kind.WORK:
            raise InvalidFlow(f"stage {spec.name!r} feeds {name!r}, which takes no items: it opens after others")
    if spec.name in spec.after:
        raise InvalidFlow(f"stage {spec.name!r} cannot come after itself")
    if spec.kind is Kind.BARRIER and not spec.after:
        raise InvalidFlow(f"barrier {spec.name!r} comes after nothing")


def _ordered(known: dict[str, StageSpec]) -> list[str]:
    """Topological order that is the same for the same declaration, whatever the hash seed."""
    sorter: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(known, ()))
    for spec in known.values():
        for target in spec.feeds:
            if target != spec.name:
                sorter.add(target, spec.name)
        for source in spec.after:
            sorter.add(spec.name, source)
    try:
        sorter.prepare()
    except CycleError as error:
        path = " → ".join(error.args[1])
        raise InvalidFlow(f"these stages feed each other in a circle: {path}", "only a stage may feed itself") from None
    rank = {name: index for index, name in enumerate(known)}
    order: list[str] = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=rank.__getitem__)
        order.extend(ready)
        sorter.done(*ready)
    return order
