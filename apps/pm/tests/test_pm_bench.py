"""The bench of pm runs, and everybody reads every counter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "bench" / "pm.py"


def test_parsing_is_measured_beside_its_raw_limit_and_the_usual_way(tmp_path: Path) -> None:
    line = [sys.executable, str(BENCH), "parse", "--counters", "2000", "--rounds", "1", "--json"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert [(result["who"], result["what"], result["n"]) for result in found] == [
        ("attributes", "columns", 2_000),
        ("raw", "columns", 2_000),
        ("headrace", "columns", 2_000),
        ("headrace", "batches", 2_000),
        ("pycapnp", "unpack", 2_000),
        ("headrace", "unpack", 2_000),
        ("headrace", "memory", 2_000),
    ]
    assert {result["part"] for result in found} == {"parse"}
    assert all(result["counters_per_s"] > 0 for result in found[:-1])
    assert found[-1]["peak_kib"] > 0


def test_whole_flows_are_measured_beside_the_designs_before_them(tmp_path: Path) -> None:
    sizes = (
        "--flow-files",
        "3000",
        "--flow-counters",
        "300",
        "--share",
        "0.5",
        "--forms",
        "rowbinary",
        "--look",
        "0.5",
    )
    line = [sys.executable, str(BENCH), "flow", "latency", "--part", "0.002", "--json", *sizes]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(text) for text in done.stdout.splitlines()]
    *flows, latency = found
    assert [(result["who"], result["files"]) for result in flows] == [
        ("old", 3),
        ("text", 3),
        ("raw", 3),
        ("headrace rowbinary", 6),
    ]
    # Each file twice, with a login each time; then once over connections that stay; and none at all.
    assert [result["bytes_per_byte"] for result in flows] == [2.0, 1.0, 0.0, 1.0]
    assert flows[0]["logins_per_file"] >= 2
    assert all(result["rows"] > 600 and result["rows_per_cpu_s"] > 0 for result in flows)
    assert {"times_old", "times_text", "times_raw"} < set(flows[-1])
    assert (latency["files"], latency["backlog_max"] > 0) == (10, True)
    assert 0 < latency["p50_s"] <= latency["p95_s"] <= latency["max_s"]


def test_a_part_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "pars"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no part pars; there are parse" in done.stderr
