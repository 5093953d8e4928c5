"""Where the rig keeps things: what was obtained, in a cache that stays; what runs, in homes that go.

A home is a directory of one server with a note of whose it is. A run that was killed cannot clean up; the next run does
it, processes first. Nothing of another living run is touched, and nothing of a run in another container that shares our
directory: whether its processes live cannot be seen from here.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import stat
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.errors import OperatorError
from headrace.testing.rig.children import (
    ServerOwner,
    alive_of,
    await_gone,
    family,
    identities,
    signal_all,
    started_at,
)

# Whom a server runs as must get through, whatever the umask; only we may look around.
HOMES_MODE = 0o711
LOG = "server.log"
LOGS_MAX = 50
OWN_CACHE = "set HEADRACE_CACHE to a directory of your own"


def cache() -> Path:
    """What was obtained and built. Servers that run as somebody else must be able to enter it."""
    named = os.environ.get("HEADRACE_CACHE")
    if named:
        place = Path(named)
    elif os.geteuid() == 0:
        place = Path("/var/cache/headrace")
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(f"the rig has no place for its cache: {error}", OWN_CACHE) from error
    return place.resolve()


def homes() -> Path:
    """The homes of this user's servers: short, because Unix sockets lie in them."""
    place = Path(tempfile.gettempdir()) / f"headrace-rig-{os.geteuid()}"
    with contextlib.suppress(FileExistsError):
        place.mkdir()
    found = place.lstat()
    if found.st_uid != os.geteuid() or not stat.S_ISDIR(found.st_mode):
        raise OperatorError(f"{place} is not a directory of ours", f"sudo rm -r {place}, or set another TMPDIR")
    if stat.S_IMODE(found.st_mode) != HOMES_MODE:
        place.chmod(HOMES_MODE)
    return place


def new_home(name: str, owner: ServerOwner | None) -> Path:
    """A fresh directory for one server, after those of dead runs were cleaned away."""
    if owner is not None:
        _check_that_all_may_enter(homes())
    clean()
    home = homes() / f"{name}-{secrets.token_hex(4)}"
    note(home, [])
    home.mkdir(mode=0o700)
    if owner is not None:
        os.chown(home, owner.uid, owner.gid)
    return home


def note(home: Path, pids: Sequence[int]) -> None:
    """Write down whose home this is and which processes live in it."""
    run = {"run": os.getpid(), "since": started_at(os.getpid()), "among": _namespace()}
    # Should we be killed before it is in its place: it reads as the note of a home that is not there.
    fresh = homes() / f".{home.name}.json"
    fresh.write_text(json.dumps({**run, "living": identities(pids)}))
    fresh.replace(homes() / f"{home.name}.json")


def forget(home: Path) -> None:
    """Remove a home. The note goes last: what could not be removed now is removed by the next run."""
    shutil.rmtree(home, ignore_errors=True)
    if not home.exists():
        (homes() / f"{home.name}.json").unlink(missing_ok=True)


def keep_log(home: Path) -> Path | None:
    """A copy of a server's log that outlives its home, until so many newer ones were kept."""
    log = home / LOG
    if not log.exists():
        return None
    kept = homes() / "logs" / f"{home.name}.log"
    kept.parent.mkdir(exist_ok=True)
    shutil.copyfile(log, kept)
    # Another run may remove the same ones.
    with contextlib.suppress(FileNotFoundError):
        for old in sorted(kept.parent.iterdir(), key=os.path.getmtime)[:-LOGS_MAX]:
            old.unlink()
    return kept


def clean() -> int:
    """Remove what dead runs left: their processes, then their homes. How many homes there were."""
    cleaned = 0
    for path in homes().glob("*.json"):
        # What does not go now, because it is somebody's or does not die, must not keep this run from starting.
        with contextlib.suppress(OSError, ValueError, LookupError, RuntimeError):
            told = json.loads(path.read_text())
            if told["among"] != _namespace() or started_at(told["run"]) == told["since"]:
                continue
            home = path.with_suffix("")
            # Again, until nobody is there: one may have been born while the others were looked for.
            while members := _inhabitants(home, {int(pid): at for pid, at in told["living"].items()}):
                signal_all(members, signal.SIGKILL)
                await_gone(members)
            forget(home)
            cleaned += 1
    return cleaned


def _inhabitants(home: Path, noted: Mapping[int, int]) -> set[int]:
    """The processes that live in a home: those in its note, with all under them, and those that write its log."""
    return {*writers_of(home / LOG), *(member for pid in alive_of(noted) for member in family(pid))}


def writers_of(log: Path) -> list[int]:
    """The processes that have this log as their output: also those of which the killed run had made no note yet."""
    found, name = [], str(log.resolve())
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        # It may have ended meanwhile, or be somebody else's.
        with contextlib.suppress(OSError):
            if name in (os.readlink(f"/proc/{pid}/fd/1"), os.readlink(f"/proc/{pid}/fd/2")):
                found.append(int(pid))
    return found


def _check_that_all_may_enter(place: Path) -> None:
    for each in (place, *place.resolve().parents):
        if not each.stat().st_mode & stat.S_IXOTH:
            message = f"{each} is closed to the user whom the server runs as"
            raise OperatorError(message, f"chmod a+x {each}, or set another TMPDIR")


def _namespace() -> str:
    """Among which processes our pids mean anything."""
    return os.readlink("/proc/self/ns/pid")
