"""Servers as operators look at them: those of `ftp_server` with their folders, and those that have brought files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from headrace.tables import OpenTables
from headrace_pm.operators.folder_looks import LookedAt, folder_looks
from headrace_pm.work.network_tables import ServerDirectory


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """What came from one server so far."""

    files: int = 0
    errors: int = 0
    last_registered_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListedServer:
    """A server. `folders` are those of `ftp_path` with the last looks at them, None if nobody has looked yet;
    one that is not in `ftp_server` any more has none."""

    system_type: str
    server_key: str
    brought: ServerFiles
    folders: tuple[tuple[str, LookedAt | None], ...]
    is_configured: bool

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        last = self.brought.last_registered_at
        return {
            "server": self.server_key,
            "system_type": self.system_type,
            "is_configured": self.is_configured,
            "files": self.brought.files,
            "errors": self.brought.errors,
            "last_registered_at": last.isoformat() if last else None,
            "folders": [{"path": path, **_look(look)} for path, look in self.folders],
        }


def _look(look: LookedAt | None) -> dict[str, object]:
    found = {each.name: getattr(look, each.name, None) for each in fields(LookedAt)}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in found.items()}


async def listed_servers(tables: OpenTables) -> list[ListedServer]:
    """First those of the table, also if they have brought nothing; then those whose files are still known."""
    rows = await tables.rows("server_files")
    brought = {(system, key): ServerFiles(int(files), int(errors), last) for system, key, files, errors, last in rows}
    looks = await folder_looks(tables)
    found = [
        ListedServer(
            each.server.system_type,
            each.server.key,
            brought.pop((each.server.system_type, each.server.key), ServerFiles()),
            tuple((folder.path, looks.get(folder)) for folder in each.folders),
            is_configured=True,
        )
        for each in await ServerDirectory(tables).read()
    ]
    return [*found, *(ListedServer(*key, files, (), is_configured=False) for key, files in brought.items())]
