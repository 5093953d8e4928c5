"""What a run that was killed leaves is swept away by the next one, and nothing else. In a directory of its own for
temporary files: other runs on this machine clean up too, and must not do it for us.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import OperatorError
from headrace.testing.rig import children
from headrace.testing.rig.children import Launch
from headrace.testing.rig.places import LOGS_MAX

RUN_S_MAX = 180.0
CLEAN = "from headrace.testing.rig import places; print(places.clean())"
# A frozen server cannot hear that its run has died; nor can one be found by a note that names nobody.
FREEZE = """
import json, sys
from headrace.testing.rig import places, children
from headrace.testing.rig.redis import RedisServer
server = RedisServer().start()
server.pause()
if "unnoted" in sys.argv:
    places.note(server.home, [])
print(json.dumps(children.identities([server.pid])), flush=True)
sys.stdin.read()
"""
MAKE_HOMES = """
import sys
from headrace.testing.rig import places
for number in range(40):
    home = places.new_home("redis", None)
    (home / "data").write_text("data")
print("made", flush=True)
sys.stdin.read()
"""
KEEP_LOGS = """
from headrace.testing.rig import places
for number in range(int(__import__("sys").argv[1])):
    home = places.new_home("redis", None)
    (home / places.LOG).write_text(str(number))
    print(places.keep_log(home))
"""


@dataclass(frozen=True)
class Machine:
    """As another machine would be: with a directory for temporary files that no other run knows."""

    temporary: Path

    @property
    def homes(self) -> Path:
        return self.temporary / f"headrace-rig-{os.geteuid()}"

    @property
    def left(self) -> list[str]:
        return sorted(path.name for path in self.homes.iterdir())

    def start(self, program: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program, *words],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def told_by(self, program: str, *words: str) -> str:
        with self.start(program, *words) as run:
            told, _ = run.communicate(timeout=RUN_S_MAX)
        assert run.returncode == 0
        return told.strip()

    def note(self) -> Path:
        (path,) = self.homes.glob("*.json")
        return path

    def change_note(self, **fields: Any) -> None:
        self.note().write_text(json.dumps({**json.loads(self.note().read_text()), **fields}))


@pytest.fixture
def machine() -> Iterator[Machine]:
    # Not below pytest's directory: whom servers run as may not enter that.
    folder = Path(tempfile.mkdtemp(prefix="headrace-places-"))
    folder.chmod(0o711)
    yield Machine(folder)
    shutil.rmtree(folder)


def start_frozen(machine: Machine, *words: str) -> tuple[subprocess.Popen[str], dict[int, int]]:
    run = machine.start(FREEZE, *words)
    assert run.stdout is not None
    return run, {int(pid): at for pid, at in json.loads(run.stdout.readline()).items()}


def kill(run: subprocess.Popen[str]) -> None:
    run.send_signal(signal.SIGKILL)
    run.communicate()


@pytest.mark.parametrize("words", [(), ("unnoted",)])
def test_what_a_killed_run_left_goes_with_the_next_and_not_before(machine: Machine, words: tuple[str, ...]) -> None:
    run, frozen = start_frozen(machine, *words)
    assert machine.told_by(CLEAN) == "0", "a living run is left alone"
    assert list(frozen) == children.alive_of(frozen)
    kill(run)
    assert list(frozen) == children.alive_of(frozen)
    assert len(machine.left) == 2
    assert machine.told_by(CLEAN) == "1"
    assert children.alive_of(frozen) == []
    assert machine.left == []


def test_what_belongs_to_another_container_is_left_alone(machine: Machine) -> None:
    run, frozen = start_frozen(machine)
    kill(run)
    ours = json.loads(machine.note().read_text())["among"]
    machine.change_note(among="pid:[1]")
    assert machine.told_by(CLEAN) == "0"
    assert list(frozen) == children.alive_of(frozen)
    machine.change_note(among=ours)
    assert machine.told_by(CLEAN) == "1"
    assert children.alive_of(frozen) == []


def test_a_pid_that_was_given_to_somebody_else_protects_and_condemns_nobody(machine: Machine) -> None:
    with machine.start("import sys; sys.stdin.read()") as bystander:
        home = Path(machine.told_by('from headrace.testing.rig import places; print(places.new_home("redis", None))'))
        before = (children.started_at(bystander.pid) or 0) - 1
        machine.change_note(run=bystander.pid, since=before, living={bystander.pid: before})
        assert home.exists()
        assert machine.told_by(CLEAN) == "1"
        assert not home.exists()
        assert bystander.poll() is None


def test_runs_that_clean_up_at_once_do_not_hinder_each_other(machine: Machine) -> None:
    with machine.start(MAKE_HOMES) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "made\n"
        assert len(machine.left) == 80
        run.kill()
    cleaners = [machine.start(CLEAN) for _ in range(3)]
    told = [int(each.communicate(timeout=RUN_S_MAX)[0]) for each in cleaners]
    assert [each.returncode for each in cleaners] == [0, 0, 0]
    assert sum(told) >= 40
    assert machine.left == []


def test_a_note_that_cannot_be_read_stops_nobody(machine: Machine) -> None:
    assert machine.told_by(CLEAN) == "0"
    for number, text in enumerate(("", "{", "{}")):
        (machine.homes / f"redis-{number}.json").write_text(text)
    assert machine.told_by(CLEAN) == "0"


def test_of_the_logs_that_were_kept_the_oldest_go(machine: Machine) -> None:
    kept = [Path(line) for line in machine.told_by(KEEP_LOGS, str(LOGS_MAX + 3)).splitlines()]
    assert [path for path in kept if not path.exists()] == kept[:3]
    assert len(list((machine.homes / "logs").iterdir())) == LOGS_MAX


TELL_COMMAND = """
import json, pathlib, sys
from headrace.testing.rig.children import Launch, command_line
print(json.dumps(command_line(Launch(["touch", sys.argv[1]], {}, pathlib.Path("/")))))
"""


def test_a_child_whose_parent_has_died_before_it_asked_to_hear_of_it_does_not_run(machine: Machine) -> None:
    orphan, child = machine.temporary / "orphan", machine.temporary / "child"
    children.run(Launch(["touch", str(child)], os.environ, machine.temporary))
    assert child.exists()
    of_the_dead = json.loads(machine.told_by(TELL_COMMAND, str(orphan)))
    assert subprocess.run(of_the_dead, check=False).returncode != 0
    assert not orphan.exists()


TRY = """
import sys
from headrace.core.errors import OperatorError
from headrace.testing.rig import cached, places, children
try:
    exec(sys.argv[1])
except OperatorError as error:
    print(f"{error} → {error.hint}")
"""


def test_a_place_that_does_not_do_is_named_with_what_to_do(machine: Machine) -> None:
    fill = "import os; os.environ['HEADRACE_CACHE'] = {!r}; cached.cached('part', lambda folder: None)"
    own = "→ set HEADRACE_CACHE to a directory of your own"
    assert machine.told_by(TRY, fill.format("/dev/null/cache")).endswith(f"'/dev/null/cache' {own}")
    assert machine.told_by(TRY, fill.format("/proc")) == f"/proc cannot be written to {own}"
    machine.temporary.chmod(0o700)
    told = machine.told_by(TRY, "places.new_home('redis', children.ServerOwner(1, 1))")
    assert told.startswith(f"{machine.temporary} is closed to the user whom the server runs as → chmod a+x")
    shutil.rmtree(machine.homes)
    machine.homes.symlink_to("/")
    assert "is not a directory of ours → sudo rm -r" in machine.told_by(TRY, "places.new_home('redis', None)")


def test_a_program_that_fails_or_does_not_end_is_shown(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"(?s)sh failed:.*no room"):
        children.run(Launch(["sh", "-c", "echo no room >&2; exit 1"], os.environ, tmp_path))
    with pytest.raises(OperatorError, match=r"sleep did not end within 0\.1 s"):
        children.run(Launch(["sleep", "60"], os.environ, tmp_path), timeout_s=0.1)
