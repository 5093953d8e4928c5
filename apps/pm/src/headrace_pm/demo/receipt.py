"""What the demo did, as it was read afterwards: from both sinks, the table of files, and the server's disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace_pm.demo.comparison import SinkComparison


@dataclass(frozen=True, slots=True)
class CounterReceipt:
    """Files by name, and uploads, of which a name may have two. `held_when_killed` are files that the process had in
    hand when it was killed, `early_rows` rows of half uploads that were in a sink before the rest of them came."""

    files: int
    uploads: int
    done_wanted: int
    done: int
    refused_wanted: int
    refused: int
    archived_wanted: int
    archived: int
    half_uploads: int
    early_rows: int
    rows_wanted: int
    table: SinkComparison
    parquet: SinkComparison
    killed: int
    held_when_killed: int
    logins: int
    fetched: int
    seconds: float
    page: str

    @property
    def right(self) -> bool:
        files = self.done == self.done_wanted > 0 and self.refused == self.refused_wanted
        rows = self.table.rows == self.parquet.rows == self.rows_wanted > 0
        return (
            files
            and rows
            and self.table.is_equal
            and self.parquet.is_equal
            and self.archived == self.archived_wanted
            and self.early_rows == 0
            and self.killed == 1
            and self.held_when_killed >= 1
        )

    @property
    def rows(self) -> Mapping[str, object]:
        return {
            "files": self.files,
            "uploads, corrections and completed halves among them": self.uploads,
            "files in both sinks and archived": f"{self.done:,} of {self.done_wanted:,}",
            "files refused, each with its reason": f"{self.refused:,} of {self.refused_wanted:,}",
            "contents in the archive, byte for byte": f"{self.archived:,} of {self.archived_wanted:,}",
            "rows of half uploads before they were whole": self.early_rows,
            "rows that must be there": self.rows_wanted,
            "rows in the table": _told(self.table),
            "rows in the Parquet files": _told(self.parquet),
            "processes killed with -9": self.killed,
            "files it had in hand": self.held_when_killed,
            "transfers from the server": self.fetched,
            "logins at the server": self.logins,
            "seconds": f"{self.seconds:,.1f}",
            "page": self.page,
        }

    @property
    def sentence(self) -> str:
        return "every counter is in both sinks, once" if self.right else "the sinks are not right"


def _told(sink: SinkComparison) -> str:
    if sink.is_equal:
        return f"{sink.rows:,}, equal row for row"
    return f"{sink.rows:,}: {sink.missing:,} missing, {sink.extra:,} too many, {sink.different:,} different"
