"""The benches of the file servers' side run, and say what they should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "pm.py"
BENCH_S_MAX = 120


def lines(tmp_path: Path, *arguments: str) -> list[dict[str, object]]:
    command = [sys.executable, str(BENCH), *arguments, "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BENCH_S_MAX, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_look_is_measured_with_its_parts(tmp_path: Path) -> None:
    found = lines(tmp_path, "scan", "--names", "40", "--known", "200", "--rounds", "2")
    assert [line["what"] for line in found] == 2 * ["scan", "list", "smismember", "sismember"]
    assert {line["server"] for line in found} == {"pyftpdlib", "vsftpd"}
    assert all(line["known"] == 200 for line in found)


def test_transfers_are_measured_beside_other_clients(tmp_path: Path) -> None:
    options = ("--files", "6", "--bytes", "1000", "--connections", "2", "--latency", "0.001", "--rounds", "1")
    found = lines(tmp_path, "transfers", *options)
    assert [line["who"] for line in found] == 2 * ["headrace", "ftplib", "aioftp", "reconnect"]
    assert [line["round_trip_ms"] for line in found] == 4 * [0.0] + 4 * [2.0]
