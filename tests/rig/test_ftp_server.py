"""FTP: what servers of two kinds do to files, and what ours does wrong on demand."""

from __future__ import annotations

import ftplib
import io
import os
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from waiting import until

from headrace.core.errors import CallerError
from headrace.testing.rig.ftp import FtpFolder, FtpServer, Transfer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.vsftpd import VsftpdServer

ANSWER_S_MAX = 60.0
HANG_S = 0.5
CONTENT = bytes(range(256)) * 400


@pytest.fixture(params=["ftp_site", "vsftpd_site"])
def site(request: pytest.FixtureRequest) -> FtpFolder:
    found: FtpFolder = request.getfixturevalue(request.param)
    return found


@contextmanager
def ftp(url: str, encoding: str = "utf-8") -> Iterator[ftplib.FTP]:
    place = urlsplit(url)
    client = ftplib.FTP(timeout=ANSWER_S_MAX, encoding=encoding)
    try:
        client.connect(place.hostname or "", place.port or 0)
        client.login(place.username or "", place.password or "")
        yield client
    finally:
        client.close()


def fetched(client: ftplib.FTP, name: str, begin: int | None = None) -> bytes:
    found = io.BytesIO()
    client.retrbinary(f"RETR {name}", found.write, rest=begin)
    return found.getvalue()


def written(site: FtpFolder, name: str) -> int:
    path = site.files / name
    return path.stat().st_size if path.exists() else 0


@contextmanager
def started_with(server: FtpServer, settings: dict[str, str]) -> Iterator[FtpServer]:
    """For the block it has these settings, and afterwards none."""
    server.stop()
    server.start(settings)
    try:
        yield server
    finally:
        server.restart()


def test_a_rename_takes_the_place_of_a_file_that_is_there(site: FtpFolder) -> None:
    with ftp(site.url) as client:
        for name in ("one", "two"):
            client.storbinary(f"STOR {name}", io.BytesIO(name.encode()))
        client.rename("one", "two")
        assert client.nlst() == ["two"]
        assert fetched(client, "two") == b"one"
        with pytest.raises(ftplib.error_perm, match=r"^550"):
            client.rename("one", "three")
    assert [path.name for path in site.files.iterdir()] == ["two"]


def test_a_transfer_goes_on_from_any_byte(site: FtpFolder) -> None:
    with ftp(site.url) as client:
        client.storbinary("STOR whole", io.BytesIO(CONTENT))
        assert client.size("whole") == len(CONTENT)
        assert fetched(client, "whole", 70_000) == CONTENT[70_000:]


def test_a_name_is_the_bytes_that_it_is(site: FtpFolder) -> None:
    name = b"caf\xe9 1.dat"
    (site.files / os.fsdecode(name)).write_bytes(b"there")
    with ftp(site.url, encoding="latin-1") as client:
        assert client.nlst() == [name.decode("latin-1")]
        assert fetched(client, name.decode("latin-1")) == b"there"


def test_what_is_only_half_there_is_sent_as_if_it_were_all(ftp_site: FtpServer) -> None:
    with ftp(ftp_site.url) as uploader, ftp(ftp_site.url) as reader:
        uploader.voidcmd("TYPE I")
        with uploader.transfercmd("STOR half") as upload:
            upload.sendall(CONTENT[:70_000])
            until(lambda: written(ftp_site, "half"), "some of it is there", ANSWER_S_MAX)
            some = fetched(reader, "half")
            assert CONTENT.startswith(some)
            assert 0 < len(some) <= 70_000
            assert reader.nlst() == ["half"]
            upload.sendall(CONTENT[70_000:])
        uploader.voidresp()
        assert fetched(reader, "half") == CONTENT


def test_vsftpd_lets_a_reader_wait_for_the_uploader(vsftpd_site: VsftpdServer) -> None:
    with ftp(vsftpd_site.url) as uploader, ftp(vsftpd_site.url) as reader, uploader.transfercmd("STOR half") as upload:
        upload.sendall(CONTENT[:1000])
        until(lambda: written(vsftpd_site, "half") == 1000, "half of it is there", ANSWER_S_MAX)
        reader.timeout = HANG_S
        assert reader.sock is not None
        reader.sock.settimeout(HANG_S)
        with pytest.raises(TimeoutError):
            fetched(reader, "half")


def test_an_upload_can_be_seen_only_when_it_is_whole(ftp_site: FtpServer) -> None:
    with started_with(ftp_site, {"half_uploads": "no"}), ftp(ftp_site.url) as uploader, ftp(ftp_site.url) as reader:
        uploader.voidcmd("TYPE I")
        with uploader.transfercmd("STOR whole") as upload:
            upload.sendall(CONTENT)
            assert reader.nlst() == []
        uploader.voidresp()
        assert fetched(reader, "whole") == CONTENT


def test_listings_are_by_mlsd_unless_the_server_has_none(ftp_site: FtpServer, vsftpd_site: VsftpdServer) -> None:
    (ftp_site.files / "a.dat").write_bytes(b"12345")
    with ftp(ftp_site.url) as client:
        assert "MLST" in client.sendcmd("FEAT")
        ((name, facts),) = client.mlsd()
        assert (name, facts["size"], facts["type"]) == ("a.dat", "5", "file")
    with started_with(ftp_site, {"mlsd": "no"}):
        for site in (ftp_site, vsftpd_site):
            with ftp(site.url) as client:
                assert "MLST" not in client.sendcmd("FEAT")
                with pytest.raises(ftplib.error_perm, match=r"^50"):
                    list(client.mlsd())
                assert client.nlst() == [path.name for path in site.files.iterdir()]


@pytest.mark.parametrize("kind", [FtpServer, VsftpdServer])
def test_with_tls_nobody_gets_in_without_it(kind: type[FtpFolder]) -> None:
    with kind({"tls": "yes"}) as server:
        (server.files / "secret").write_bytes(CONTENT)
        with pytest.raises(ftplib.error_perm, match=r"^5[35]0"), ftp(server.url):
            """It does not come so far."""
        trusted = ssl.create_default_context(cafile=server.certificate)
        with ftplib.FTP_TLS(timeout=ANSWER_S_MAX, context=trusted) as client:
            client.connect("127.0.0.1", server.port)
            client.login("rig", "rig")
            client.prot_p()
            assert fetched(client, "secret") == CONTENT


def test_a_transfer_is_cut_once_and_goes_on_from_there(ftp_site: FtpServer) -> None:
    (ftp_site.files / "a.dat").write_bytes(CONTENT)
    got = io.BytesIO()
    with started_with(ftp_site, {"cut_transfer_after": "70000", "cuts": "1"}):
        with ftp(ftp_site.url) as client, pytest.raises((EOFError, ConnectionError)):
            client.retrbinary("RETR a.dat", got.write)
        assert got.getvalue() == CONTENT[:70_000]
        with ftp(ftp_site.url) as client:
            assert fetched(client, "a.dat", 70_000) == CONTENT[70_000:]
        # The server notes a transfer when its client has everything.
        until(lambda: len(ftp_site.transfers()) == 2, "both are noted")
    assert ftp_site.transfers() == [
        Transfer("RETR", "/a.dat", 70_000, False),
        Transfer("RETR", "/a.dat", len(CONTENT) - 70_000, True),
    ]
    assert ftp_site.login_count() == 2


@pytest.mark.parametrize("command", ["LIST", "MLSD", "NLST"])
def test_a_listing_is_cut(ftp_site: FtpServer, command: str) -> None:
    for number in range(100):
        (ftp_site.files / f"{number:03}.dat").touch()
    lines: list[str] = []
    with (
        started_with(ftp_site, {"cut_listing_after": "310"}),
        ftp(ftp_site.url) as client,
        pytest.raises((EOFError, ConnectionError)),
    ):
        client.retrlines(command, lines.append)
    assert 0 < len(lines) < 100


def test_a_transfer_is_slow(ftp_site: FtpServer) -> None:
    (ftp_site.files / "a.dat").write_bytes(CONTENT[:40_000])
    with started_with(ftp_site, {"bytes_per_s": "10000"}), ftp(ftp_site.url) as client:
        before = time.monotonic()
        assert fetched(client, "a.dat") == CONTENT[:40_000]
        assert time.monotonic() - before > 1.0


def test_one_connection_too_many_is_told_421(ftp_site: FtpServer) -> None:
    with started_with(ftp_site, {"connections_max": "1"}), ftp(ftp_site.url) as client:
        with pytest.raises(ftplib.error_temp, match=r"^421"), ftp(ftp_site.url):
            """It does not come so far."""
        assert client.nlst() == []
    with (
        started_with(ftp_site, {"connections_max": "0"}),
        pytest.raises(ftplib.error_temp, match=r"^421"),
        ftp(ftp_site.url),
    ):
        """Nor does this one."""


def test_the_proxy_has_the_conversation_and_not_the_data(site: FtpFolder, fault_proxy: Callable[[str], Proxy]) -> None:
    (site.files / "a.dat").write_bytes(CONTENT)
    proxy = fault_proxy(site.url)
    with ftp(proxy.url) as client:
        assert fetched(client, "a.dat") == CONTENT
        assert proxy.reply_bytes < 2_000
        proxy.cut_reply_to(b"RNTO")
        with pytest.raises((EOFError, ConnectionError)):
            client.rename("a.dat", "b.dat")
    assert [path.name for path in site.files.iterdir()] == ["b.dat"], "it was renamed, and nobody was told"


def test_a_setting_that_it_does_not_know_is_refused() -> None:
    for settings in ({"tls": "maybe"}, {"cuts": "-1"}, {"colour": "blue"}):
        with pytest.raises(CallerError, match="no setting"), FtpServer(settings):
            """It does not come so far."""
