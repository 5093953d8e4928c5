"""Listings of a folder, as servers send them: MLSD, and LIST in the manner of Unix and of DOS.

A listing is bytes until its names are known. Lines end with CR LF; a lone LF inside of a line belongs to a name, which
is then refused. A name with CR LF in it breaks its line in two: the second half says nothing of a file, and then the
line before is not believed either, because its name was cut by it. Whatever is refused is counted with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace_pm.ftp.names import NameFault, fault_of, shown, text_of_name
from headrace_pm.ftp.stamps import Stamp, exact

_TOTAL = re.compile(rb"total \d+")
_MONTHS = {
    name: f"{number:02}"
    for number, name in enumerate(b"jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)
}
# One space stands between the moment and the name; further ones belong to the name.
_UNIX = re.compile(
    rb"([-dlbcpsD])[-rwxsStTlL]{9}[+.@]? +\d+ +(?:\S+ +){0,3}?(\d+) +"
    rb"(?:([A-Za-z]{3}) +(\d{1,2}) +(?:(\d{1,2}):(\d\d)|(\d{4}))|(\d{4})-(\d\d)-(\d\d) +(\d\d):(\d\d)) (.+)",
    re.DOTALL,
)
_DOS = re.compile(
    rb"(\d\d)-(\d\d)-(\d{2}|\d{4}) +(\d\d):(\d\d)([AP]M)? +(?:(<DIR>)|(?:<[A-Z]+>)|(\d+)) ?(.+)",
    re.DOTALL | re.IGNORECASE,
)
_FACTS = re.compile(rb"(?:^|;)(type|size|modify)=([^;]*)")
MIDDAY = 12


class ListedFile(NamedTuple):
    """A file in a listing; `text` is its name as tables keep it. A tuple as `Stamp`."""

    name: bytes
    text: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class RefusedName:
    """Something in a listing that cannot be a file of ours."""

    fault: NameFault
    shown: str


@dataclass(slots=True)
class FolderListing:
    """What is in a folder: its files, how much else, and what cannot be a name."""

    files: list[ListedFile] = field(default_factory=list)
    folder_count: int = 0
    other_count: int = 0
    refused: list[RefusedName] = field(default_factory=list)

    def add(self, name: bytes, stamp: Stamp) -> None:
        fault = fault_of(name)
        if fault is None:
            self.files.append(ListedFile(name, text_of_name(name), stamp))
        else:
            self.refuse(name, fault)

    def refuse(self, name: bytes, fault: NameFault) -> None:
        self.refused.append(RefusedName(fault, shown(name)))


def read_mlsd(data: bytes) -> FolderListing:
    """The listing that MLSD sent."""
    return _read(data, _mlsd_line)


def read_list(data: bytes) -> FolderListing:
    """The listing that LIST sent, in whichever of its forms."""
    return _read(data, _list_line)


def read_mlst(fact_line: bytes) -> Stamp | None:
    """Size and moment in the answer to MLST, which looks like a line of MLSD; None if it is no file."""
    facts, _, _ = fact_line.strip().partition(b" ")
    kind, stamp = _facts(facts)
    return stamp if kind == b"file" else None


def _read(data: bytes, line_into: Callable[[bytes, FolderListing], bool]) -> FolderListing:
    listing = FolderListing()
    # Some servers end their lines with LF alone; then no name can hold one.
    lines = data.split(b"\r\n") if b"\r\n" in data else data.split(b"\n")
    was_file = False
    for line in lines:
        before = len(listing.files)
        if not line or _TOTAL.fullmatch(line):
            continue
        if not line_into(line, listing):
            listing.refuse(line, NameFault.UNREADABLE)
            if was_file:
                cut = listing.files.pop()
                listing.refuse(cut.name, NameFault.LINE_BREAK)
                before -= 1
        was_file = len(listing.files) > before
    return listing


def _mlsd_line(line: bytes, listing: FolderListing) -> bool:
    facts, space, name = line.partition(b" ")
    if not space or b"=" not in facts or not facts.endswith(b";"):
        return False
    kind, stamp = _facts(facts)
    if kind == b"file":
        listing.add(name, stamp)
    elif kind == b"dir":
        listing.folder_count += 1
    elif kind not in (b"cdir", b"pdir"):
        listing.other_count += 1
    return True


def _facts(facts: bytes) -> tuple[bytes, Stamp]:
    found = dict(_FACTS.findall(facts.lower()))
    size, modified = found.get(b"size", b""), found.get(b"modify", b"")
    moment = exact(modified.decode("ascii", "replace")) if modified else ""
    return found.get(b"type", b""), Stamp(int(size) if size.isdigit() else 0, moment)


def _list_line(line: bytes, listing: FolderListing) -> bool:
    if found := _UNIX.fullmatch(line):
        kind, size, month, day, hour, minute, year, *iso, name = found.groups()
        if kind == b"-":
            listing.add(name, Stamp(int(size), _moment(month, day, hour, minute, year, iso)))
        elif kind != b"d":
            listing.other_count += 1
        elif name not in (b".", b".."):
            listing.folder_count += 1
        return True
    if found := _DOS.fullmatch(line):
        month, day, year, hour, minute, half, is_folder, size, name = found.groups()
        if size is not None:
            listing.add(name, Stamp(int(size), _dos_moment((year, month, day), int(hour), minute, half)))
        elif is_folder:
            listing.folder_count += 1
        else:
            listing.other_count += 1
        return True
    return False


def _moment(month: bytes, day: bytes, hour: bytes, minute: bytes, year: bytes, iso: list[bytes]) -> str:  # noqa: PLR0913
    if iso[0]:
        return exact(b"".join(iso).decode() + "00", "i")
    number = _MONTHS.get(month.lower())
    if number is None:
        # A month in another language: the size must do.
        return ""
    if year:
        return f"d{year.decode()}{number}{int(day):02}"
    return f"m{number}{int(day):02}{int(hour):02}{minute.decode()}"


def _dos_moment(date: tuple[bytes, bytes, bytes], hour: int, minute: bytes, half: bytes | None) -> str:
    year, month, day = (part.decode() for part in date)
    if half is not None:
        hour = hour % MIDDAY + (MIDDAY if half.upper() == b"PM" else 0)
    return exact(f"{year if len(year) == 4 else '20' + year}{month}{day}{hour:02}{minute.decode()}00", "i")
