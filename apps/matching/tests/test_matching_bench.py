"""The bench runs, and everything that it publishes is counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "matching.py"


def test_the_rate_and_the_latency_of_events_are_measured(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCH), "events", "--n", "3000", "--barriers", "4", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["what"] for line in found] == ["rows", "decoded", "broker", "entered", "announced"]
    assert all(line["events_per_s"] > 0 for line in found[:3])
    assert [line["n"] for line in found] == [3_000, 3_000, 3_000, 4, 4]
