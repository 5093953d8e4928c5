"""What the Parquet files say: of every key the row with the highest version, as the table has it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from headrace_pm.parquet.columns import KEY, SCHEMA


def revision_files(folder: Path) -> list[Path]:
    """All files that are whole, the oldest version first."""
    return sorted(folder.glob("*/v*.parquet"))


def newest_rows(folder: Path) -> pa.Table:
    """Every counter once: of rows with the same key the one with the highest version, and within one file the last."""
    names = [str(path) for path in revision_files(folder)]
    plain = pa.schema([_plain(field) for field in SCHEMA])
    if not names:
        return plain.empty_table()
    # Read in order of the versions, so what comes last is what counts.
    table = ds.dataset(names, schema=plain, format="parquet").to_table()
    placed = table.select(KEY).append_column("place", pa.array(np.arange(len(table))))
    last = placed.group_by(list(KEY)).aggregate([("place", "max")])["place_max"]
    return table.take(last.sort())


def _plain(field: pa.Field) -> pa.Field:
    is_text = pa.types.is_dictionary(field.type)
    return field.with_type(pa.string()) if is_text else field
