"""A folder of generated files, with faults planted among them, and beside it what is known of them.

The folder holds nothing but the files, so that it can be what an FTP server shows. Beside it, in the plan:

    ne.csv counter_cat.csv …   the dictionaries
    files.jsonl                for each file what it is and what must become of it
    again/                     what is uploaded later under the same names: corrections, and the whole of half uploads
    again.jsonl                the rows of those
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from headrace.errors import CallerError, writing_to
from headrace_pm.counters.dictionary_files import write_dictionary
from headrace_pm.network.damage import damaged
from headrace_pm.network.generated_file import FilePlan, GeneratedFile
from headrace_pm.network.generated_network import GeneratedNetwork
from headrace_pm.wire.packed import pack

ELEMENTS_MAX = 500
# What becomes of a file.
ROWS, INCOMPLETE, BAD, UNKNOWN = "rows", "incomplete", "bad", "unknown_ne"


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """How many files, of how many counters; how many of them packed, and how many with which fault."""

    files: int
    counters: int
    seed: int = 0
    packed: int = 0
    half: int = 0
    corrupt: int = 0
    unknown: int = 0
    again: int = 0

    def __post_init__(self) -> None:
        planted = self.half + self.corrupt + self.unknown + self.again
        if planted > self.files:
            raise CallerError(f"{planted:,} faults do not fit into {self.files:,} files", "a file has one at most")
        if self.corrupt and not self.counters:
            raise CallerError("a file without counters has nothing to spoil", "ask for counters")


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One line of files.jsonl."""

    file: str
    upload: int
    outcome: str
    packed: bool
    ne: str
    bytes: int
    counters: int
    rows: int
    error: str


class GeneratedCounts(NamedTuple):
    """How often which outcome is to be expected, and how many rows."""

    outcomes: Counter[str]
    rows: int


class GeneratedFolder:
    """All files of a plan."""

    def __init__(self, plan: FolderPlan) -> None:
        self._plan = plan
        self._known = max(1, min(plan.files - plan.unknown, ELEMENTS_MAX))
        self.network = GeneratedNetwork(plan.seed, self._known)
        order = np.random.default_rng([plan.seed, 5]).permutation(plan.files).tolist()
        faults = [INCOMPLETE] * plan.half + [BAD] * plan.corrupt + [UNKNOWN] * plan.unknown + ["again"] * plan.again
        self._faults = dict(zip(order, faults, strict=False))
        self._packed = set(np.random.default_rng([plan.seed, 6]).permutation(plan.files)[: plan.packed].tolist())

    def file(self, number: int, revision: int = 1) -> GeneratedFile:
        plan = FilePlan(number, self._plan.counters, number in self._packed, revision)
        if self._faults.get(number) == UNKNOWN:
            return GeneratedFile(self.network, self.network.element(self._known + number), 0, plan)
        period, which = divmod(number, self._known)
        return GeneratedFile(self.network, self.network.element(which), period, plan)

    def write(self, folder: Path, beside: Path, truth: Path | None) -> GeneratedCounts:
        """Write everything. What an earlier plan had for later is removed; files in the folder are only replaced."""
        counts = GeneratedCounts(Counter(), 0)
        again = beside / "again"
        with writing_to(folder, "name another directory"), ExitStack() as stack:
            for each in (folder, again):
                each.mkdir(parents=True, exist_ok=True)
            for path in again.iterdir():
                path.unlink()
            write_dictionary(beside, self.network.dictionary)
            facts = stack.enter_context((beside / "files.jsonl").open("wb"))
            rows = (
                stack.enter_context(truth.open("wb")) if truth else None,
                stack.enter_context((beside / "again.jsonl").open("wb")),
            )
            for each_facts, content, file in self._uploads():
                (folder if each_facts.upload == 1 else again).joinpath(each_facts.file).write_bytes(content)
                counts.outcomes[each_facts.outcome] += 1
                counts = counts._replace(rows=counts.rows + each_facts.rows)
                facts.write(msgspec.json.encode(asdict(each_facts)) + b"\n")
                truth_file = rows[each_facts.upload - 1]
                if each_facts.rows and truth_file:
                    truth_file.writelines(file.truth())
        return counts

    def _uploads(self) -> Iterator[tuple[FileFacts, bytes, GeneratedFile]]:
        for number in range(self._plan.files):
            fault = self._faults.get(number)
            file = self.file(number)
            whole = file.content()
            if fault == INCOMPLETE:
                length = int(np.random.default_rng([self._plan.seed, 7, number]).integers(0, len(whole)))
                yield _facts(file, INCOMPLETE, 1, whole[:length]), whole[:length], file
                yield _facts(file, ROWS, 2, whole), whole, file
            elif fault == BAD:
                spoiled = damaged(file.plain_in_one_segment(), number)
                content = pack(spoiled) if file.is_packed else spoiled
                yield _facts(file, BAD, 1, content), content, file
            elif fault == UNKNOWN:
                yield _facts(file, UNKNOWN, 1, whole, f"Unknown NE: {file.element.name}"), whole, file
            else:
                yield _facts(file, ROWS, 1, whole), whole, file
                if fault == "again":
                    file = self.file(number, revision=2)
                    whole = file.content()
                    yield _facts(file, ROWS, 2, whole), whole, file


def _facts(file: GeneratedFile, outcome: str, upload: int, content: bytes, error: str = "") -> FileFacts:
    rows = file.rows if outcome == ROWS else 0
    return FileFacts(
        file.name, upload, outcome, file.is_packed, file.element.name, len(content), file.counters, rows, error
    )
