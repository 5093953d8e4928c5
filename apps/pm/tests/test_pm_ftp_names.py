"""Names are bytes, tables hold texts, and one belongs to the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CallerError
from headrace_pm.ftp.listings import FolderListing, ListedFile, read_list, read_mlsd
from headrace_pm.ftp.names import (
    NameFault,
    NameRefused,
    ascii_text,
    bytes_of_name,
    bytes_of_path,
    fault_of,
    shown,
    text_of_name,
)
from headrace_pm.ftp.passwords import PasswordReference
from headrace_pm.ftp.servers import FileServer, WireProtocol
from headrace_pm.ftp.stamps import Stamp

MOMENT = "u20261118044151"
tricky = st.lists(
    st.sampled_from([b"%", b"2", b"5", b"E9", b"\xe9", b"\xff", b"%E9", "é".encode(), b"a", b" ", b"\x80"])
    | st.binary(max_size=3),
    max_size=8,
).map(b"".join)


@given(tricky)
def test_a_name_comes_back_from_its_text(name: bytes) -> None:
    text = text_of_name(name)
    assert bytes_of_name(text) == name
    text.encode()


@given(tricky, tricky)
def test_two_names_never_share_a_text(one: bytes, other: bytes) -> None:
    assert (text_of_name(one) == text_of_name(other)) is (one == other)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"gNodeB_1.dat", "gNodeB_1.dat"),
        (b"caf\xe9", "caf%E9"),
        (b"caf%E9", "caf%25E9"),
        (b"100%", "100%"),
        ("tiếng Việt".encode(), "tiếng Việt"),
    ],
)
def test_only_what_must_be_is_escaped(name: bytes, text: str) -> None:
    assert text_of_name(name) == text


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        (b"", NameFault.EMPTY),
        (b".", NameFault.DOTS),
        (b"..", NameFault.DOTS),
        (b"a\r\nDELE b", NameFault.LINE_BREAK),
        (b"a\0b", NameFault.LINE_BREAK),
        (b"../etc/passwd", NameFault.SEPARATOR),
        (b"x" * 300, NameFault.TOO_LONG),
        (b"\xe9" * 86, NameFault.TOO_LONG),
        (b"\xe9" * 85, None),
        (b"x" * 255, None),
        ("é".encode() * 255, None),
        (b"..a", None),
        (b" ", None),
    ],
)
def test_what_cannot_be_a_name_has_a_reason(name: bytes, fault: NameFault | None) -> None:
    assert fault_of(name) is fault


def test_paths_and_keys_are_ascii() -> None:
    assert ascii_text("/Dữ liệu/") == "/D%E1%BB%AF li%E1%BB%87u/"
    assert bytes_of_path(ascii_text("/Dữ liệu/%41")) == "/Dữ liệu/%41".encode()
    assert ascii_text("/a b  ") == "/a b%20%20"
    assert bytes_of_path(ascii_text("/Đo ")) == "/Đo ".encode()
    for path in ("", "/a\r\nDELE b", "/" + "x" * 500):
        with pytest.raises(NameRefused):
            bytes_of_path(path)


def test_what_is_shown_is_harmless() -> None:
    assert shown(b"a\x1b[31mb\nc\xe9") == "a%1B[31mb%0Ac%E9"
    assert len(shown(b"x" * 300)) < 70


def test_a_server_has_a_key_without_a_password() -> None:
    server = FileServer.of_row("5GA", "192.168.1.100", 21, "user", "env:SECRET")
    assert server.key == "192.168.1.100_21_user"
    assert FileServer.of_row("ONT", "sftp://[::1]", 22, "user", "file:/x").key == "::1_22_user"
    assert FileServer.of_row("ONT", "ftps://a.example/", 990, "u", "env:X").protocol is WireProtocol.FTP_IMPLICIT_TLS


@pytest.mark.parametrize(
    "row",
    [
        ("5GA", "http://a", 21, "u", "env:X"),
        ("5GA", "a b", 21, "u", "env:X"),
        ("5GA", "a", 0, "u", "env:X"),
        ("5GA", "a", 21, "", "env:X"),
        ("5GA", "a", 21, "u\r\nQUIT", "env:X"),
        ("5GA", "a", 21, "u" * 100, "env:X"),
        ("x" * 21, "a", 21, "u", "env:X"),
    ],
)
def test_a_row_that_cannot_work_is_refused(row: tuple[str, str, int, str, str]) -> None:
    with pytest.raises(CallerError):
        FileServer.of_row(*row)


def test_what_stands_where_a_reference_should_is_not_repeated() -> None:
    for text in ("hunter2", "env:", "pass:hunter2"):
        with pytest.raises(CallerError) as refused:
            PasswordReference.read(text)
        assert "hunter2" not in f"{refused.value} {refused.value.hint}"


def files_of(listing: FolderListing) -> list[ListedFile]:
    assert [each.fault for each in listing.refused] == []
    return listing.files


def test_mlsd_facts_come_in_any_order_and_case() -> None:
    data = (
        b"Type=cdir;Modify=20261118044151; .\r\n"
        b"Modify=20261118044151.123;SIZE=5;unique=8U;TYPE=file; a; b=c.dat\r\n"
        b"type=dir;modify=20261118044151; ClickHouse\r\n"
        b"type=OS.unix=slink:/x;size=1; link\r\n"
        b"size=7;type=file; no moment\r\n"
    )
    listing = read_mlsd(data)
    assert files_of(listing) == [
        ListedFile(b"a; b=c.dat", "a; b=c.dat", Stamp(5, MOMENT)),
        ListedFile(b"no moment", "no moment", Stamp(7)),
    ]
    assert (listing.folder_count, listing.other_count) == (1, 1)


def test_list_is_read_in_the_manner_of_unix() -> None:
    data = (
        b"total 12\r\n"
        b"drwxr-xr-x    2 0        0            4096 Nov 18 04:41 ClickHouse\r\n"
        b"-rw-r--r--    1 65534    65534           5 Nov  8 04:41  leading blank.dat\r\n"
        b"-rw-r--r--+   1 ftp      domain users 1234 Feb 28  2025 old.dat\r\n"
        b"-rw-r--r--    1 owner 77 Nov 18 4:41 no group\r\n"
        b"-rw-r--r--    1 a b 77 2026-11-18 04:41 iso\r\n"
        b"lrwxrwxrwx    1 a b 7 Nov 18 04:41 link -> target\r\n"
        b"-rw-r--r--    1 a b 7 Thg 18 04:41 another language\r\n"
    )
    listing = read_list(data)
    assert [(file.name, file.stamp) for file in files_of(listing)] == [
        (b" leading blank.dat", Stamp(5, "m11080441")),
        (b"old.dat", Stamp(1234, "d20250228")),
        (b"no group", Stamp(77, "m11180441")),
        (b"iso", Stamp(77, "i20261118044100")),
        (b"another language", Stamp(7)),
    ]
    assert (listing.folder_count, listing.other_count) == (1, 1)


def test_list_is_read_in_the_manner_of_dos() -> None:
    data = (
        b"11-18-26  04:41PM       <DIR>          ClickHouse\r\n"
        b"11-18-2026  12:05AM                 1234 a file.dat\r\n"
        b"11-18-26  04:41PM                   77 b.dat\r\n"
        b"11-18-26  16:41                     78 c.dat\r\n"
    )
    listing = read_list(data)
    assert [(file.name, file.stamp) for file in files_of(listing)] == [
        (b"a file.dat", Stamp(1234, "i20261118000500")),
        (b"b.dat", Stamp(77, "i20261118164100")),
        (b"c.dat", Stamp(78, "i20261118164100")),
    ]
    assert listing.folder_count == 1


def test_a_name_that_breaks_its_line_condemns_what_is_left_of_it() -> None:
    data = b"type=file;size=1; before\r\ntype=file;size=5; cut\r\nhere\r\ntype=file;size=2; after\r\n"
    listing = read_mlsd(data)
    assert [file.name for file in listing.files] == [b"before", b"after"]
    assert {each.fault for each in listing.refused} == {NameFault.UNREADABLE, NameFault.LINE_BREAK}


def test_lines_may_end_with_a_line_feed_alone() -> None:
    listing = read_mlsd(b"type=file;size=1; a\ntype=file;size=2; b\n")
    assert [file.name for file in files_of(listing)] == [b"a", b"b"]


@given(st.binary(max_size=300))
def test_no_listing_is_too_strange_to_be_read(data: bytes) -> None:
    for read in (read_mlsd, read_list):
        listing = read(data)
        assert all(fault_of(file.name) is None for file in listing.files)


def test_stamps_are_compared_as_far_as_they_can_be() -> None:
    exact = Stamp(5, MOMENT)
    assert exact.agrees_with(Stamp(5, MOMENT))
    assert not exact.agrees_with(Stamp(6, MOMENT))
    assert not exact.agrees_with(Stamp(5, "u20261118044152"))
    assert exact.agrees_with(Stamp(5, "m01010000")), "a zone and a year are missing: only the size counts"
    assert Stamp(5, "m11180441").agrees_with(Stamp(5, "d20261118")), "it grew old between two listings"
    assert not Stamp(5, "m11180441").agrees_with(Stamp(5, "d20261119"))
    assert not Stamp(5, "m11180441").agrees_with(Stamp(5, "m11180442"))
    for stamp in (exact, Stamp(0), Stamp(7, "m11180441")):
        assert Stamp.read(str(stamp)) == stamp
    with pytest.raises(ValueError, match="no stamp"):
        Stamp.read("5x")
