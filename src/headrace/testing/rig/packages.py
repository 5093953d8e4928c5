"""Packages of Debian and its kin, installed in one go and without starting what is in them.

A server's package starts its service as it is installed, on the usual port and for good. While we install, a policy
file forbids that, and PostgreSQL's makes no cluster. Both files carry a mark and are gone afterwards; one that a killed
run left is removed by the next. A policy that somebody else wrote stays and decides.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.core.errors import OperatorError
from headrace.testing.rig.needs import DebianPackage, install_line
from headrace.testing.rig.turns import Tell, turn

ROOT = Path("/")
MARK = "# Put here by `headrace rig get` while it installs packages. Remove it if no such command runs.\n"
POLICY = ("usr/sbin/policy-rc.d", f"#!/bin/sh\n{MARK}exit 101\n", 0o755)
NO_CLUSTER = ("etc/postgresql-common/createcluster.d/headrace.conf", f"{MARK}create_main_cluster = false\n", 0o644)
TRIES = 3
PAUSE_S = 3.0
APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3", "-o", "Dpkg::Use-Pty=0")
# A configuration file that an earlier installation left must not become a question.
KEEP = ("-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold")
HOPELESS = ("Unable to locate package", "has no installation candidate")
TAIL = 2_000


def install(needs: Sequence[DebianPackage], tell: Tell) -> None:
    """Install these packages, or say which line does it."""
    names = sorted({need.name for need in needs})
    if shutil.which("apt-get") is None:
        wanted = ", ".join(f"{need.program} ({need.name} {need.version})".replace(" )", ")") for need in needs)
        raise OperatorError("this machine has no apt-get: the rig cannot install here", f"install by hand: {wanted}")
    if os.geteuid() != 0:
        update = "" if _lists(ROOT) else "sudo apt-get update && "
        raise OperatorError(f"not on this machine: {', '.join(names)}", f"{update}{install_line(names)}")
    with turn(_lock(ROOT), tell) as lock:
        missing = [need for need in needs if need.found() is None]
        if missing:
            with quiet(ROOT, tell):
                _install(sorted({need.name for need in missing}), lock, tell)


def sweep(root: Path) -> None:
    """Remove what a killed run left of ours; one that still installs will do so itself."""
    if any(_is_ours(root / name) for name, _, _ in (POLICY, NO_CLUSTER)) and os.access(_lock(root).parent, os.W_OK):
        with suppress(BlockingIOError), turn(_lock(root), None):
            _remove(root)


@contextmanager
def quiet(root: Path, tell: Tell) -> Iterator[None]:
    """While this lasts no service is started by an installation."""
    try:
        for name, text, mode in (POLICY, NO_CLUSTER):
            if not _put(root / name, text, mode):
                tell(f"/{name} is somebody else's: it stays, and services may start")
        yield
    finally:
        _remove(root)


def _put(path: Path, text: str, mode: int) -> bool:
    """Write a file of ours, whole at once; False if one of somebody else's is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, fresh = tempfile.mkstemp(prefix=".headrace-", dir=path.parent)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.chmod(fresh, mode)
    try:
        # Unlike a rename, a link never takes the place of something.
        os.link(fresh, path)
    except FileExistsError:
        return _is_ours(path)
    finally:
        os.unlink(fresh)
    return True


def _remove(root: Path) -> None:
    for name, _, _ in (POLICY, NO_CLUSTER):
        if _is_ours(root / name):
            (root / name).unlink()


def _is_ours(path: Path) -> bool:
    with suppress(OSError, UnicodeDecodeError):
        return MARK in path.read_text()
    return False


def _install(names: Sequence[str], lock: int, tell: Tell) -> None:
    since, said = time.monotonic(), ""
    tell(f"apt-get: installing {', '.join(names)}")
    for attempt in range(TRIES):
        if attempt or not _lists(ROOT):
            done = _apt(("update",), lock)
            tell(f"apt-get: {'updated' if done.returncode == 0 else 'updated in part'}")
        done = _apt((*KEEP, "install", "--no-install-recommends", *names), lock)
        if done.returncode == 0:
            tell(f"apt-get: installed in {time.monotonic() - since:.0f} s")
            return
        said = done.stdout[-TAIL:]
        if attempt and any(words in said for words in HOPELESS):
            break
        if 0 < attempt < TRIES - 1:
            time.sleep(PAUSE_S)
    raise OperatorError(f"apt-get could not install {', '.join(names)}:\n{said}", install_line(list(names)))


def _apt(arguments: Sequence[str], lock: int) -> subprocess.CompletedProcess[str]:
    # It must not die with us, half an installation is worse than none; so it holds our lock until it has ended.
    return subprocess.run(
        [*APT, *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(lock,),
        check=False,
    )


def _lists(root: Path) -> bool:
    return any((root / "var/lib/apt/lists").glob("*_Packages*"))


def _lock(root: Path) -> Path:
    return root / "run" / "headrace-packages.lock"
