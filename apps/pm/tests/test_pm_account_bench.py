"""The bench of the account of a file at a small size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "pm.py"
SIZES = ("--names", "500", "--known", "20000", "--rounds", "2")


def test_a_folder_of_names_is_registered_quicker_than_one_by_one(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "account", *SIZES, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    took = {line["who"]: line["ms"] for line in map(json.loads, done.stdout.splitlines())}
    assert took["register, all new"] < took["text: ask and save each"]
    assert {"register, all known", "ask which are unknown", "poll for 10", "hold and settle"} < took.keys()
