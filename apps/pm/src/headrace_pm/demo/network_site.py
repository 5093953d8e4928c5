"""The network of the demo: what its elements upload and when, over FTP; and what of it lies where afterwards."""

from __future__ import annotations

import ftplib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from headrace.testing import FtpServer
from headrace_pm.network.generated_folder import (
    BAD,
    INCOMPLETE,
    ROWS,
    UNKNOWN,
    FileFacts,
    FolderPlan,
    GeneratedFolder,
)
from headrace_pm.network.truth import CounterKey, TrueRow, true_rows

PATH, DONE = "/Access/5G/Others/", "ClickHouse/Done"
ANSWER_S_MAX = 30.0
FIRST, LATER = 1, 2


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One name of the network. `kind` is what is the matter with it, `wanted` what must become of it in the end."""

    name: str
    kind: str
    is_done: bool
    error: str


class NetworkSite:
    """The generated files, the server that they are uploaded to, and the truth about them."""

    def __init__(self, plan: FolderPlan, folder: Path, server: FtpServer) -> None:
        self._folder, self._server = folder, server
        self._plan, self._truth = folder / "plan", folder / "truth.jsonl"
        GeneratedFolder(plan).write(folder / "files", self._plan, self._truth)
        lines = (self._plan / "files.jsonl").read_bytes().splitlines()
        facts = [msgspec.json.decode(line, type=FileFacts) for line in lines]
        self._uploads = {(each.file, each.upload): each for each in facts}
        self.sent: list[tuple[str, int]] = []
        # Whose folder it is: elements upload into one that is there.
        (server.files / PATH.strip("/")).mkdir(parents=True)

    def tables(self, password: str) -> Path:
        """A folder with what `pm import` reads: dictionaries, the server and its folder. `password` is a reference."""
        place = urlsplit(self._server.url)
        server = f"1,5GA,{place.hostname},{place.port},{place.username},{password}"
        (self._plan / "ftp_server.csv").write_text(f"id,system_type,host,port,user_name,password_ref\n{server}\n")
        (self._plan / "ftp_path.csv").write_text(f"id,server_id,path\n1,1,{PATH}\n")
        return self._plan

    @property
    def names(self) -> list[str]:
        """All names, in the order of their elements."""
        return [name for name, upload in self._uploads if upload == FIRST]

    def named(self, *outcomes: str) -> set[str]:
        """Names whose first upload is one of these."""
        return {name for name in self.names if self._uploads[name, FIRST].outcome in outcomes}

    @property
    def later(self) -> list[str]:
        """Names that are uploaded a second time: corrected, or whole at last."""
        return [name for name, upload in self._uploads if upload == LATER]

    def planned(self) -> list[PlannedFile]:
        return [self._planned(name) for name in self.names]

    def truth(self) -> dict[CounterKey, TrueRow]:
        """What both sinks must hold when everything was uploaded."""
        return true_rows(self._truth, self._plan / "again.jsonl")

    def upload(self, names: Iterable[str], which: int) -> None:
        """By the protocol, as an element does it."""
        place = urlsplit(self._server.url)
        source = self._folder / "files" if which == FIRST else self._plan / "again"
        with ftplib.FTP(timeout=ANSWER_S_MAX, encoding="utf-8") as client:
            client.connect(place.hostname or "", place.port or 0)
            client.login(place.username or "", place.password or "")
            client.cwd(PATH)
            for name in names:
                client.storbinary(f"STOR {name}", BytesIO((source / name).read_bytes()))
                self.sent.append((name, which))

    def archived(self) -> tuple[int, int]:
        """How many contents must be in the archive, and how many of them are, whatever their names: one that is missing
        is not made up for by another."""
        wanted = Counter(
            _hash((self._plan / "again" if which == LATER else self._folder / "files") / name)
            for name, which in self.sent
            if self._uploads[name, which].outcome == ROWS
        )
        folder = self._server.files / PATH.strip("/") / DONE
        found = Counter(_hash(path) for path in folder.iterdir()) if folder.is_dir() else Counter[bytes]()
        return wanted.total(), (wanted & found).total() - (found - wanted).total()

    def _planned(self, name: str) -> PlannedFile:
        first = self._uploads[name, FIRST]
        kinds = {INCOMPLETE: "half, the rest later", BAD: "spoilt", UNKNOWN: "of an unknown element"}
        kind = kinds.get(first.outcome) or ("uploaded again" if (name, LATER) in self._uploads else "whole")
        packed = ", packed" if first.packed else ""
        return PlannedFile(name, kind + packed, first.outcome in (ROWS, INCOMPLETE), first.error)


def _hash(path: Path) -> bytes:
    return sha256(path.read_bytes()).digest()
