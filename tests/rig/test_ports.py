"""Ports: no other run on this machine picks one that is held, and one that was given back is free for all."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.testing.rig import ports
from headrace.testing.rig.proxy import Proxy

# Another run that has only these two to pick from.
OTHER_RUN = """
import sys
from headrace.testing.rig import ports

ports.LOWEST, ports.TRIES = int(sys.argv[1]), 2
ports._highest = lambda: ports.LOWEST + 2
print(ports.reserve_port())
"""


@pytest.fixture
def neighbours() -> Iterator[tuple[int, int]]:
    """Two ports side by side that this run holds."""
    held = [ports.reserve_port()]
    while held[-1] - 1 not in held and held[-1] + 1 not in held:
        held.append(ports.reserve_port())
    upper = held[-1] if held[-1] - 1 in held else held[-1] + 1
    yield upper - 1, upper
    for port in held:
        ports.give_back(port)


def picked_by_another_run(lowest: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", OTHER_RUN, str(lowest)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_another_run_picks_no_port_that_is_held(neighbours: tuple[int, int]) -> None:
    lower, upper = neighbours
    assert "no free port" in picked_by_another_run(lower).stderr
    ports.give_back(upper)
    assert picked_by_another_run(lower).stdout == f"{upper}\n"


def test_a_proxy_at_the_port_of_its_server_does_not_give_it_away(neighbours: tuple[int, int]) -> None:
    lower, upper = neighbours
    with Proxy(f"tcp://127.0.0.1:{upper}", ("127.0.2.1", upper)) as proxy:
        assert proxy.url == f"tcp://127.0.2.1:{upper}"
    assert "no free port" in picked_by_another_run(lower).stderr


def test_two_of_one_run_differ() -> None:
    held = [ports.reserve_port() for _ in range(100)]
    for port in held:
        ports.give_back(port)
    assert len(set(held)) == len(held)


def test_ports_side_by_side_are_all_held() -> None:
    first = ports.reserve_port(side_by_side=4)
    assert all("no free port" in picked_by_another_run(first + number).stderr for number in (0, 2))
    for port in range(first, first + 4):
        ports.give_back(port)
