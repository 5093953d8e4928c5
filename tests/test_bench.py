"""The benches run, and each of their loops crosses its finish line once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent.parent / "bench"
# On a busy machine smap's takes a minute and a half: it starts four servers and nine processes.
BENCH_S_MAX = 300


def lines(tmp_path: Path, *arguments: str) -> list[dict[str, object]]:
    name, *rest = arguments
    done = subprocess.run(
        [sys.executable, str(BENCH / name), *rest, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=BENCH_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_fan_out_is_measured_beside_its_raw_limits(tmp_path: Path) -> None:
    found = lines(tmp_path, "fanout.py", "--store", "sqlite", "--n", "1000")
    assert [line["who"] for line in found] == ["raw_rows", "raw_chunks", "headrace"]
    for line in found:
        assert (line["store"], line["n"], line["finish_lines"]) == ("sqlite", 1_000, 1)
        assert {"items_per_s", "submit_s"} <= set(line)


def test_the_pick_up_is_measured_in_process_and_across(tmp_path: Path) -> None:
    found = lines(tmp_path, "latency.py", "--n", "3")
    assert [line["where"] for line in found] == ["in_process", "across_processes"]


def test_smap_is_measured_beside_the_plain_way_and_the_floors_of_its_servers(tmp_path: Path) -> None:
    found = lines(tmp_path, "smap.py", "--n", "200", "--rounds", "1")
    assert [(line["who"], line["what"]) for line in found] == [
        ("raw", "publish"),
        ("raw", "consume"),
        ("raw", "get"),
        ("raw", "upsert"),
        ("raw", "floor"),
        ("one_by_one", "settled"),
        ("headrace", "settled"),
        ("one_by_one", "told"),
        ("headrace", "told"),
        ("one_by_one", "end_to_end"),
        ("headrace", "end_to_end"),
        ("modules", "per_core"),
        ("headrace", "real_modules"),
        ("headrace", "memory"),
    ]
    assert all(line["n"] == 200 for line in found)
    assert all(float(str(value)) > 0 for line in found for name, value in line.items() if name.endswith("per_s"))


def test_rows_in_bulk_are_measured_beside_the_usual_way(tmp_path: Path) -> None:
    found = lines(tmp_path, "mysql_bulk.py", "--n", "2000")
    ways = ["executemany", "text", "bulk", "bulk_10k"]
    assert [(line["shape"], line["who"]) for line in found] == [(s, way) for s in ("full", "fixed") for way in ways]
    assert all((line["n"], line["commits"]) == (2_000, 1 if line["who"] == "bulk_10k" else 2) for line in found)
    assert {"client_cpu_s", "server_cpu_s", "rows_per_cpu_s", "times_executemany"} <= set(found[0])


def test_the_vision_of_matching_is_measured_beside_every_pair(tmp_path: Path) -> None:
    sizes = "--step-assets 2 --products 3 --frames 3 --drawn 2 --pairs 3 --top-products 2 --top-frames 3 --vectors 5000"
    worlds = "--worlds 1 --world-products 1 --world-videos 1"
    parts = "--only steps matcher neighbours quality"
    found = lines(tmp_path, "matching_vision.py", *sizes.split(), *worlds.split(), *parts.split())
    assert [line["what"] for line in found] == ["step"] * 7 + ["matcher", "top_1", "neighbours"] + ["quality"] * 4
    steps = {line["step"] for line in found if line["what"] == "step"}
    assert steps == {"read", "embed", "keypoints", "keypoints_orb", "keyframes", "verify", "evidence"}
    by_name = {line["what"]: line for line in found}
    assert {"seconds", "every_pair_s", "times"} <= set(by_name["matcher"])
    assert by_name["top_1"]["same"] == by_name["top_1"]["products"] == 2
    assert float(str(by_name["neighbours"]["recall_at_10"])) >= 0.95
    assert [("f1" in line, line["difficulty"]) for line in found[-4:]] == [(True, 1), (True, 2), (True, 3), (False, 2)]
