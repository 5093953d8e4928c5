"""While packages are installed nothing may start; what we put there for it is gone afterwards, whatever happened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.rig.packages import quiet, sweep

POLICY = "usr/sbin/policy-rc.d"
CLUSTER = "etc/postgresql-common/createcluster.d/headrace.conf"
HOLD = """
import sys
from pathlib import Path
from headrace.testing.rig.packages import quiet
from headrace.testing.rig.turns import turn
root = Path(sys.argv[1])
with turn(root / "run" / "headrace-packages.lock", print), quiet(root, print):
    print("quiet", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of a file system of our own."""
    for name in ("usr/sbin", "run"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def files(root: Path) -> set[str]:
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return found - {"run/headrace-packages.lock"}


def test_no_service_may_start_while_it_lasts_and_all_is_as_before_afterwards(root: Path) -> None:
    with quiet(root, print):
        assert subprocess.run([root / POLICY, "redis-server", "start"], check=False).returncode == 101
        assert "create_main_cluster = false" in (root / CLUSTER).read_text()
        assert files(root) == {POLICY, CLUSTER}
    assert files(root) == set()


def test_a_failed_installation_leaves_no_policy(root: Path) -> None:
    with pytest.raises(OSError, match="no room"), quiet(root, print):
        raise OSError("no room")
    assert files(root) == set()


def test_the_policy_of_somebody_else_stays_and_is_told(root: Path) -> None:
    foreign = "#!/bin/sh\nexit 0\n"
    told: list[str] = []
    (root / POLICY).write_text(foreign)
    with quiet(root, told.append):
        assert (root / POLICY).read_text() == foreign
    sweep(root)
    assert (root / POLICY).read_text() == foreign
    assert files(root) == {POLICY}
    assert told == [f"/{POLICY} is somebody else's: it stays, and services may start"]


def test_a_dangling_link_of_somebody_else_is_not_written_through(root: Path) -> None:
    (root / POLICY).symlink_to(root / "elsewhere")
    with quiet(root, print):
        assert not (root / "elsewhere").exists()
    assert os.readlink(root / POLICY) == str(root / "elsewhere")


def test_what_a_killed_run_left_is_removed_by_the_next_but_not_before(root: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "quiet\n"
    sweep(root)
    assert files(root) == {POLICY, CLUSTER}, "it is still at it"
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert files(root) == {POLICY, CLUSTER}
    sweep(root)
    assert files(root) == set()


def test_a_policy_of_ours_that_was_left_serves_once_more(root: Path) -> None:
    told: list[str] = []
    with quiet(root, told.append), quiet(root, told.append):
        assert files(root) == {POLICY, CLUSTER}
    assert files(root) == set()
    assert told == []
