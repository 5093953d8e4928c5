"""A network that does not exist: elements, counters in groups and at levels, objects with their locations.

Everything follows from a seed and the number of what is asked for; nothing is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from headrace_pm.counters.dictionary import LEVEL_COLUMN, DictionaryRows

COUNTERS_PER_OBJECT = 100
# 2026-01-01 00:00 UTC, and a quarter of an hour: the period of most networks.
FIRST_PERIOD_MS, PERIOD_S = 1_767_225_600_000, 900
# Levels as a dictionary has them: only those of the column rat_type are in scope.
_LEVELS = {"cell_index": "1", LEVEL_COLUMN: "2", "nodefunction": "3"}
_NODE_FUNCTIONS = {"gNodeBFunction": "5G", "eNodeBFunction": "4G", "NodeBFunction": "3G"}
_COUNTERS, _GROUPS = 1_500, 24
_PROVINCES = ("HNI", "HCM", "DNG", "HPG", "CTO", "KHA", "NAN", "QNH")


@dataclass(frozen=True, slots=True)
class NetworkElement:
    """A node: its name, its id in the dictionary, and the function in which it serves."""

    name: str
    id: int
    function: str


@dataclass(frozen=True, slots=True)
class NetworkObject:
    """A cell of a node: its location, and what must be found in that."""

    location: bytes
    cell: int
    rat_type: str
    pairs: dict[str, str]


class GeneratedNetwork:
    """So many elements, known to the dictionary; and as many strangers as anybody asks for."""

    def __init__(self, seed: int, elements: int) -> None:
        self.seed, self._elements = seed, elements

    def element(self, number: int) -> NetworkElement:
        """An element; one with a number beyond the network is a stranger, whom no dictionary knows."""
        function = tuple(_NODE_FUNCTIONS)[number % 2]
        kind = "Stranger" if number >= self._elements else function.removesuffix("Function")
        return NetworkElement(f"{kind}_{_PROVINCES[number % len(_PROVINCES)]}_{number:05}", 1_000 + number, function)

    @cached_property
    def counters(self) -> NDArray[np.int32]:
        """All counters that elements count, in scope or not."""
        steps = np.random.default_rng([self.seed, 1]).integers(1, 40, _COUNTERS)
        ids: NDArray[np.int32] = (1_526_726_000 + np.cumsum(steps)).astype(np.int32)
        return ids

    @cached_property
    def dictionary(self) -> DictionaryRows:
        """What an operator would import. Of ten counters one is in no group, and one at another level only."""
        chance = np.random.default_rng([self.seed, 2])
        groups = chance.integers(0, _GROUPS, _COUNTERS).tolist()
        places = chance.integers(0, 10, _COUNTERS).tolist()
        cat = {}
        for counter, group, place in zip(self.counters.tolist(), groups, places, strict=True):
            code = f"PM_GROUP_{group:02}"
            if place != 0:
                cat[counter, _LEVELS["nodefunction" if place == 1 else LEVEL_COLUMN]] = code
            if place == 2:
                # The same counter at two levels: the group of the other one is not meant.
                cat[counter, _LEVELS["cell_index"]] = "PM_GROUP_OTHER"
        elements = map(self.element, range(self._elements))
        return DictionaryRows({each.name: each.id for each in elements}, cat, dict(_LEVELS), dict(_NODE_FUNCTIONS))

    @cached_property
    def groups(self) -> dict[int, str]:
        """The counters in scope, each with its group."""
        rows = self.dictionary.counter_cat
        return {counter: group for (counter, level), group in rows.items() if level == _LEVELS[LEVEL_COLUMN]}

    def object(self, element: NetworkElement, number: int) -> NetworkObject:
        """An object of an element. Writers differ in blanks and in the case of keys; some name no function."""
        cell = 256 * (element.id % 1_000) + number
        function = ("NodeFunction", "nodeFunction", "NODEFUNCTION")[number % 3]
        written = {
            f"{element.function} Name": element.name,
            "Cell Name": f"Ô {element.name[-5:]}-{number}",
            "Local Cell ID": str(number),
            function: element.function,
        }
        rat_type = _NODE_FUNCTIONS[element.function]
        if number % 13 == 12:
            del written[function]
            rat_type = ""
        separator = (",", ", ")[number % 2]
        text = separator.join(f"{key}={value}" for key, value in written.items()) + " " * (number % 5 == 4)
        return NetworkObject(text.encode(), cell, rat_type, {key.lower(): value for key, value in written.items()})
