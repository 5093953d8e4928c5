"""The generated network: its files are read by everybody, and its truth is what comes out of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pm_messages import by_pycapnp, opened
from pm_rows import rows

from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import NetworkDictionary, UnknownElement
from headrace_pm.counters.dictionary_files import read_dictionary
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.network.truth import read_truth, true_rows
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile, is_packed, plain_file
from headrace_pm.wire.file_errors import BadFile, IncompleteFile

Command = Callable[..., "subprocess.CompletedProcess[str]"]
PLAN = FolderPlan(files=24, counters=1_230, seed=5, packed=8, half=3, corrupt=4, unknown=2, again=3)


class Generated:
    """A generated folder on disk, and its reading."""

    def __init__(self, home: Path, plan: FolderPlan) -> None:
        self.folder, self.plan, self.truth = home / "files", home / "files.plan", home / "truth.jsonl"
        self._unpacked = home / "unpacked"
        self.counts = GeneratedFolder(plan).write(self.folder, self.plan, self.truth)
        self.dictionary = NetworkDictionary(read_dictionary(self.plan))
        self.facts = [json.loads(line) for line in (self.plan / "files.jsonl").read_text("utf-8").splitlines()]

    def path(self, facts: dict[str, Any]) -> Path:
        folder = self.folder if facts["upload"] == 1 else self.plan / "again"
        return folder / str(facts["file"])

    def rows(self, path: Path) -> list[dict[str, Any]]:
        with FileBytes(plain_file(path, self._unpacked)) as source:
            found = batches(CounterFile(source), self.dictionary)
            return [{**row, "batch": batch.number} for batch in found for row in rows(batch)]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    return Generated(tmp_path_factory.mktemp("generated"), PLAN)


@pytest.mark.parametrize("upload", [1, 2])
def test_what_is_read_is_the_truth_row_for_row(generated: Generated, upload: int) -> None:
    truth: dict[str, list[dict[str, Any]]] = {}
    for row in read_truth(generated.truth if upload == 1 else generated.plan / "again.jsonl"):
        told = msgspec.structs.asdict(row)
        assert told.pop("revision") in (1, 2)
        truth.setdefault(told.pop("file"), []).append(told)
    whole = [facts for facts in generated.facts if facts["outcome"] == "rows" and facts["upload"] == upload]
    assert {facts["file"] for facts in whole} == set(truth)
    for facts in whole:
        found = generated.rows(generated.path(facts))
        assert found == truth[facts["file"]]
        assert len(found) == facts["rows"]
        assert 0 < len(found) < facts["counters"]
    found_rows = list(chain.from_iterable(truth.values()))
    assert any(row["counter_value"] is None for row in found_rows)
    assert {row["rat_type"] for row in found_rows} == {"4G", "5G", ""}


def test_every_fault_is_what_the_plan_says(generated: Generated) -> None:
    outcomes = Counter(facts["outcome"] for facts in generated.facts if facts["upload"] == 1)
    assert outcomes == {"rows": 15, "incomplete": 3, "bad": 4, "unknown_ne": 2}
    errors = {"incomplete": IncompleteFile, "bad": BadFile, "unknown_ne": UnknownElement}
    for facts in generated.facts:
        assert generated.path(facts).stat().st_size == facts["bytes"]
        if facts["outcome"] != "rows":
            with pytest.raises(errors[facts["outcome"]]) as raised:
                generated.rows(generated.path(facts))
            assert facts["error"] in str(raised.value)


def test_the_folder_holds_the_files_and_nothing_else(generated: Generated) -> None:
    assert len(list(generated.folder.iterdir())) == PLAN.files
    assert len(list((generated.plan / "again").iterdir())) == PLAN.half + PLAN.again
    assert sum(facts["packed"] for facts in generated.facts if facts["upload"] == 1) == PLAN.packed


def test_files_are_plain_or_packed_in_one_segment_or_many(generated: Generated) -> None:
    forms = set()
    for facts in generated.facts:
        if facts["outcome"] == "rows":
            with FileBytes(generated.path(facts)) as source:
                packed = is_packed(source)
            assert packed == facts["packed"]
            first = generated.path(facts).read_bytes()[:4]
            forms.add("packed" if packed else f"{'many' if int.from_bytes(first, 'little') else 'one'}")
    assert forms == {"packed", "one", "many"}


def test_pycapnp_reads_the_files_as_well(generated: Generated) -> None:
    plain = [facts for facts in generated.facts if facts["outcome"] == "rows" and not facts["packed"]]
    for facts in plain:
        unit, objects = by_pycapnp(generated.path(facts).read_bytes())
        assert unit == facts["ne"]
        assert sum(len(each.ids) for each in objects) == facts["counters"]


def test_what_is_uploaded_again_wins_and_what_was_half_is_whole(generated: Generated) -> None:
    before, after = true_rows(generated.truth), true_rows(generated.truth, generated.plan / "again.jsonl")
    halves = [facts["file"] for facts in generated.facts if facts["outcome"] == "incomplete"]
    assert {row.file for key, row in after.items() if key not in before} == set(halves)
    changed = {row.file for key, row in before.items() if after[key].counter_value != row.counter_value}
    assert len(changed) == PLAN.again
    assert len(before) == sum(1 for _ in read_truth(generated.truth))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_seed_decides_every_byte(tmp_path: Path) -> None:
    plan = FolderPlan(files=5, counters=310, seed=9, packed=2, half=1, corrupt=1, again=1)
    for name in ("one", "two"):
        Generated(tmp_path / name, plan)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    other = Generated(
        tmp_path / "other", FolderPlan(files=5, counters=310, seed=10, packed=2, half=1, corrupt=1, again=1)
    )
    assert set(contents(other.folder)) == set(contents(tmp_path / "one" / "files"))
    assert not {*contents(other.folder).values()} & {*contents(tmp_path / "one" / "files").values()}


def test_it_is_typed_as_users_type_it(headrace_command: Command, tmp_path: Path) -> None:
    line = ["--files", "6", "--counters", "250", "--seed", "1", "--truth", "truth.jsonl", "--unknown", "1"]
    done = headrace_command("--json", "pm", "generate", "out", *line)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    lines = (tmp_path / "truth.jsonl").read_text("utf-8").splitlines()
    assert told == {
        "folder": "out",
        "plan": "out.plan",
        "truth": "truth.jsonl",
        "uploads": {"rows": 5, "unknown_ne": 1},
        "rows": len(lines),
    }
    assert len(list((tmp_path / "out").iterdir())) == 6
    shown = headrace_command("pm", "generate", "out", *line).stdout
    assert f"out: 5 uploads with {len(lines):,} rows, 1 unknown_ne; out.plan has the plan" in shown


def test_a_plan_forgets_what_an_earlier_one_had_for_later(tmp_path: Path) -> None:
    Generated(tmp_path, FolderPlan(files=4, counters=10, again=3))
    again = Generated(tmp_path, FolderPlan(files=4, counters=10, again=1)).plan / "again"
    assert len(list(again.iterdir())) == 1


def test_pm_is_listed_among_the_commands(headrace_command: Command) -> None:
    assert re.search(r"pm +Telecom performance files", headrace_command("--help").stdout)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--files", "3", "--half", "2", "--corrupt", "2"], "4 faults do not fit into 3 files"),
        (["--files", "3", "--counters", "0", "--corrupt", "1"], "a file without counters has nothing to spoil"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(headrace_command: Command, words: list[str], reason: str) -> None:
    done = headrace_command("pm", "generate", "out", *words)
    assert done.returncode == 2
    assert reason in done.stderr


def test_a_folder_that_cannot_be_made_is_named(headrace_command: Command, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    done = headrace_command("pm", "generate", "taken/out", "--files", "1")
    assert done.returncode != 0
    assert "taken/out cannot be written" in done.stderr


def test_files_without_counters_are_files() -> None:
    folder = GeneratedFolder(FolderPlan(files=2, counters=0))
    assert opened(folder.file(0).content()).counters == 0
    assert list(folder.file(1).truth()) == []
