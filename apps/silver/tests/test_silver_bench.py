"""The bench of silver runs, and each of its loops takes every task."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "silver.py"


def test_silver_is_measured_beside_its_raw_limit_and_the_plain_way(tmp_path: Path) -> None:
    line = [sys.executable, str(BENCH), "--n", "300", "--rounds", "1", "--json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert [(result["who"], result["n"]) for result in found] == [
        ("row_by_row", 300),
        ("raw", 300),
        ("headrace", 300),
    ]
    assert all(result["tasks_per_s"] > 0 for result in found)
    assert [result["times_raw"] > 0 for result in found] == [True] * 3
    assert found[1]["times_raw"] == 1
