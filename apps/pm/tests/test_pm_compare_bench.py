"""The bench of comparisons at a small size; at full size (`HEADRACE_TORTURE=100`) each table has 10,000,000 rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "pm.py"
ROWS = 100_000 * int(os.environ.get("HEADRACE_TORTURE", "1"))
# A difference among so many is found in seconds: ours took 11 s for ten million in each table on two busy cores.
SECONDS_MAX = 60.0


def test_one_difference_among_many_rows_is_found_in_seconds(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "compare", "--compared", str(ROWS), "--rounds", "1", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1_200, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["who"].partition(",")[0] for line in found[1:3]] == ["headrace", "headrace"]
    assert {line["rows_in_each"] for line in found} == {ROWS}
    assert max(line["seconds"] for line in found[1:3]) < SECONDS_MAX
