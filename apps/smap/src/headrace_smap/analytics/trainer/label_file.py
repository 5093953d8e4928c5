"""Labels of people, as spreadsheets write them: a CSV with a column of texts and one of labels.

UTF-8 with or without its mark, separated by commas, semicolons or tabs. Rows without a label are those that nobody has
come to yet. Whatever else is wrong is told with its line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import CallerError
from headrace_smap.analytics.modules.linear.learned_module import LABELS, NO_LABELS
from headrace_smap.analytics.modules.posts import TEXT_CHARS_MAX, storable
from headrace_smap.spreadsheet import unguarded

TEXT, LABEL = "text", "label"
BYTES_MAX = 512 * 1024 * 1024
ROWS_MAX = 1_000_000
_SEPARATORS = (",", ";", "\t")
_SAVE = "save it as CSV UTF-8"


@dataclass(frozen=True, slots=True)
class LabelColumns:
    """Where text and label stand, and what labels of other people are called here."""

    text: str = TEXT
    label: str = LABEL
    names: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str, label: str, mapped: str) -> LabelColumns:
        """`mapped` is written `0=negative,1=positive`."""
        pairs = [pair.partition("=") for pair in mapped.split(",") if pair.strip()]
        wrong = [left for left, sign, right in pairs if not sign or not right.strip()]
        if wrong:
            raise CallerError(f"--map: {wrong[0]!r} is not THEIRS=OURS", "--map 0=negative,1=neutral,2=positive")
        return LabelColumns(text, label, {left.strip().lower(): right.strip() for left, _, right in pairs})


@dataclass(frozen=True, slots=True)
class LabelledText:
    """A text and its labels: one, or any number for aspects."""

    text: str
    labels: frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelRows:
    """What files say, each text once. `unlabelled` rows have no label yet; of `repeated` texts the last label holds."""

    texts: Sequence[LabelledText]
    unlabelled: int
    repeated: int


def labels_in(paths: Sequence[Path], module: str, columns: LabelColumns, aspects: Collection[str] = ()) -> LabelRows:
    """The labels of one module in all files; of the same text the last label holds. `aspects` are those that can be
    given."""
    known = frozenset(LABELS[module] or aspects)
    found: dict[str, LabelledText] = {}
    unlabelled = repeated = 0
    for path in paths:
        for text, cell, line in _cells(path, columns):
            labels = _labels(cell, columns.names, known, LABELS[module] is None)
            if labels is None:
                hint = f"one of {', '.join(sorted(known))}; --map names others"
                raise CallerError(f"{path}, line {line}: {cell.strip()[:40]!r} is no label of {module}", hint)
            if not labels and cell.strip().lower() != NO_LABELS:
                unlabelled += 1
                continue
            repeated += text in found
            found[text] = LabelledText(text, labels)
    return LabelRows([*found.values()], unlabelled, repeated)


def _labels(cell: str, names: Mapping[str, str], known: frozenset[str], many: bool) -> frozenset[str] | None:
    """The labels in a cell; None if one of them is none."""
    parts = [part.strip().lower() for part in (cell.split(";") if many else [cell])]
    labels = frozenset(names.get(part, part) for part in parts if part and not (many and part == NO_LABELS))
    return labels if labels <= known else None


def _cells(path: Path, columns: LabelColumns) -> Iterator[tuple[str, str, int]]:
    """Text, label and line of each row that has a text."""
    content = _decoded(path)
    separator = max(_SEPARATORS, key=content.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=separator, strict=True)
    try:
        head = [name.strip() for name in next(reader, [])]
        places = [_place(path, head, name) for name in (columns.text, columns.label)]
        for count, row in enumerate(reader):
            if count >= ROWS_MAX:
                raise CallerError(f"{path} has more than {ROWS_MAX:,} rows", "train on a part of it")
            if not any(cell.strip() for cell in row):
                continue
            if len(row) <= max(places):
                hint = f"a row has {len(head)} cells; a text with a comma or a line break stands in quotes"
                raise CallerError(f"{path}, line {reader.line_num}: only {len(row)} cells", hint)
            text = _plain(row[places[0]])
            if text:
                yield text, row[places[1]], reader.line_num
    except csv.Error as error:
        raise CallerError(f"{path}, line {reader.line_num}: {error}", _SAVE) from error


def _decoded(path: Path) -> str:
    try:
        if path.stat().st_size > BYTES_MAX:
            raise CallerError(f"{path} has more than {BYTES_MAX:,} bytes", "train on a part of it")
        content = path.read_bytes()
    except OSError as error:
        raise CallerError(f"{path} cannot be read: {error.strerror}", "name a CSV file") from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\x00" in content[:100]:
        raise CallerError(f"{path} is not UTF-8 but a wider encoding", _SAVE)
    if content.startswith(b"PK\x03\x04"):
        raise CallerError(f"{path} is a workbook or an archive, not a CSV", _SAVE)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CallerError(f"{path}, line {line}: not UTF-8 at byte {error.start}", _SAVE) from None


def _place(path: Path, head: Sequence[str], name: str) -> int:
    if name not in head:
        shown = ", ".join(head)[:200] or "nothing"
        raise CallerError(
            f"{path}, line 1: there is no column {name!r} among {shown}", "--text and --label name others"
        )
    return head.index(name)


def _plain(cell: str) -> str:
    return storable(unguarded(cell).strip()[:TEXT_CHARS_MAX])
