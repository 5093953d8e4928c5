"""The bench of the ledger runs: each way counts everything, and an item costs no more than it may."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "smap_ledger.py"
BYTES_PER_ITEM_MAX = 100


def test_the_ledger_is_measured_beside_its_script_and_the_plain_way(tmp_path: Path) -> None:
    line = [sys.executable, str(BENCH), "--n", "4000", "--json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = {result["who"]: result for result in map(json.loads, done.stdout.splitlines())}
    assert list(found) == ["specification", "raw", "headrace", "memory"]
    assert all(found[who]["items_per_s"] > 0 for who in ("specification", "raw", "headrace"))
    sizes = [size for name, size in found["memory"].items() if name.startswith(("bytes", "used_memory"))]
    assert len(sizes) == 6
    assert all(0 < size <= BYTES_PER_ITEM_MAX for size in sizes)
