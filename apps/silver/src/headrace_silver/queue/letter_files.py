"""Dead letters as a file: JSON lines or CSV. The file appears whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from headrace.errors import CallerError
from headrace_silver.queue.dead_letters import Letter, letter_document
from headrace_silver.records.record_files import STDIN, format_of

COLUMNS = (
    "id", "task_id", "task_type", "reason", "rule_id", "error_msg", "created_at", "redriven_at", "closed_at",
    "closed_by", "note", "payload",
)  # fmt: skip


def write_letters(path: str, letters: Iterable[Letter]) -> int:
    """Write the letters; how many. The name says in which form."""
    form = format_of(path)
    if form not in ("jsonl", "csv"):
        raise CallerError(f"letters are not written as {form}", "name a file that ends with .jsonl or .csv")
    if path == STDIN:
        return _write(sys.stdout.buffer, form, letters)
    unfinished = Path(f"{path}.part")
    try:
        with unfinished.open("wb") as raw:
            if path.endswith(".gz"):
                with gzip.open(raw, "wb") as packed:
                    count = _write(packed, form, letters)  # type: ignore[arg-type]
            else:
                count = _write(raw, form, letters)
        os.replace(unfinished, path)
    except OSError as error:
        raise CallerError(f"{path}: {error.strerror}", "name a file in a directory that can be written") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _write(file: IO[bytes], form: str, letters: Iterable[Letter]) -> int:
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    lines = csv.DictWriter(text, COLUMNS)
    if form == "csv":
        lines.writeheader()
    count = 0
    for letter in letters:
        count += 1
        document = letter_document(letter)
        if form == "csv":
            lines.writerow({**document, "payload": letter.payload})
        else:
            text.write(json.dumps(document, ensure_ascii=False) + "\n")
    text.flush()
    text.detach()
    return count
