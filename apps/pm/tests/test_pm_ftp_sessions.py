"""One connection to servers of every kind: the same questions have the same answers, whatever is spoken."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncssh
import pytest
from pm_ftp_world import QUICK, World, row_of, started_with, world

from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.sftp import SftpServer
from headrace.testing.rig.vsftpd import VsftpdServer
from headrace_pm.ftp.errors import FileGone, FolderMissing, IdentityRefused, LoginRefused, PasswordMissing
from headrace_pm.ftp.names import NameFault
from headrace_pm.ftp.pool import ServerLane
from headrace_pm.ftp.stamps import Stamp

CONTENT = bytes(range(256)) * 1000
MOMENT = 1_790_000_000.0
WRITTEN = "u20260921141320"
NAMES = [
    b"gNodeB_1.dat",
    b"with  two spaces.dat",
    b" leading and trailing ",
    "tiếng Việt.dat".encode(),
    b"caf\xe9.dat",
    b"100%.dat",
    b"%41.dat",
    b"*{a}[b]?.dat",
    b"-la",
    b"tab\there",
    b"escape\x1b[31m",
    b"semi;colon=x; y",
    b"a -> b",
]


@pytest.fixture(scope="module")
def without_mlsd() -> Iterator[FtpServer]:
    with FtpServer({"mlsd": "no"}) as server:
        yield server


@pytest.fixture(params=["ftp_site", "without_mlsd", "vsftpd_site", "sftp_site"])
def site(request: pytest.FixtureRequest) -> FtpFolder:
    found: FtpFolder = request.getfixturevalue(request.param)
    found.empty()
    return found


async def read(there: World, path: bytes, offset: int = 0) -> bytes:
    found = bytearray()
    async with there.pool.session(ServerLane.TRANSFER) as session:
        await session.retrieve(path, offset, found.extend)
    return bytes(found)


async def test_every_name_is_the_bytes_that_it_is(site: FtpFolder) -> None:
    async with world(site) as there:
        paths = {name: there.put(name, name * 3, MOMENT) for name in NAMES}
        async with there.pool.session(ServerLane.SCAN) as session:
            listing = await session.listing(there.path)
        assert {file.name: file.stamp.size for file in listing.files} == {name: len(name) * 3 for name in NAMES}
        assert listing.refused == []
        for name, path in paths.items():
            assert await read(there, path) == name * 3
            async with there.pool.session(ServerLane.MOVE) as session:
                assert await session.facts(path) == Stamp(len(name) * 3, WRITTEN)
                await session.rename(path, path + b".moved")
        assert {os.fsencode(name) for name in there.names()} == {name + b".moved" for name in NAMES}
        assert there.pool.counts.opened <= 3, "nothing went wrong on the way"


async def test_what_cannot_be_a_name_is_refused_and_counted(site: FtpFolder) -> None:
    async with world(site) as there:
        for name in (b"line\nbreak", b"carriage\rreturn", b"both\r\nof them", b"\xe9" * 100, b"good"):
            there.put(name)
        async with there.pool.session(ServerLane.SCAN) as session:
            listing = await session.listing(there.path)
        assert [file.name for file in listing.files if file.name not in (b"line", b"line?break")] == [b"good"]
        faults = [each.fault for each in listing.refused]
        assert faults.count(NameFault.TOO_LONG) == 1
        assert NameFault.LINE_BREAK in faults


async def test_folders_and_links_are_no_files(site: FtpFolder) -> None:
    async with world(site) as there:
        there.make("ClickHouse")
        there.put("real")
        (there.disk / "link").symlink_to("nowhere")
        async with there.pool.session(ServerLane.SCAN) as session:
            listing = await session.listing(there.path)
            assert [file.name for file in listing.files] == [b"real"]
            assert listing.folder_count == 1
            assert await session.facts(there.at("ClickHouse")) is None


async def test_a_file_is_read_from_any_byte(site: FtpFolder) -> None:
    async with world(site) as there:
        path = there.put("a.dat", CONTENT)
        assert await read(there, path) == CONTENT
        assert await read(there, path, 100_000) == CONTENT[100_000:]


async def test_what_is_not_there_has_a_clear_answer(site: FtpFolder) -> None:
    async with world(site) as there:
        async with there.pool.session(ServerLane.SCAN) as session:
            assert await session.facts(there.at("none")) is None
        with pytest.raises(FolderMissing, match=r"localhost|127\.0\.0\.1"):
            async with there.pool.session(ServerLane.SCAN) as session:
                await session.listing(there.path + b"none/")
        for verb in ("delete", "rename", "read"):
            with pytest.raises(FileGone):
                async with there.pool.session(ServerLane.MOVE) as session:
                    if verb == "delete":
                        await session.delete(there.at("none"))
                    elif verb == "rename":
                        await session.rename(there.at("none"), there.at("other"))
                    else:
                        await session.retrieve(there.at("none"), 0, lambda _: None)


async def test_folders_are_made_with_those_above_and_only_once(site: FtpFolder) -> None:
    async with world(site) as there, there.pool.session(ServerLane.MOVE) as session:
        for _ in range(2):
            await session.make_folder(there.path + b"ClickHouse/Done")
        assert (there.disk / "ClickHouse" / "Done").is_dir()


@pytest.mark.parametrize(
    ("kind", "scheme", "settings"),
    [
        (FtpServer, "ftpes://", {"tls": "yes"}),
        (VsftpdServer, "ftpes://", {"tls": "yes", "require_ssl_reuse": "YES"}),
        (VsftpdServer, "ftps://", {"tls": "yes", "implicit_ssl": "YES", "require_ssl_reuse": "YES"}),
    ],
    ids=["pyftpdlib explicit", "vsftpd explicit", "vsftpd implicit"],
)
async def test_everything_works_inside_of_tls(kind: type[FtpFolder], scheme: str, settings: dict[str, str]) -> None:
    with kind(settings) as site:
        trusted = replace(QUICK, ftp_ca_file=site.certificate)
        async with world(site, trusted, scheme) as there:
            path = there.put("a.dat", CONTENT)
            async with there.pool.session(ServerLane.SCAN) as session:
                assert [file.name for file in (await session.listing(there.path)).files] == [b"a.dat"]
            for _ in range(2):
                assert await read(there, path) == CONTENT
        async with world(site, QUICK, scheme) as strange:
            with pytest.raises(IdentityRefused) as refused:
                async with strange.pool.session(ServerLane.SCAN):
                    """It does not come so far."""
            assert refused.value.heals
            assert "PM_FTP_CA_FILE" in refused.value.hint


async def test_a_host_key_that_nobody_knows_is_not_trusted(sftp_site: SftpServer) -> None:
    async with world(sftp_site) as there:
        known = there.settings.sftp_known_hosts
        assert known is not None
        known.write_text(known.read_text().replace(str(sftp_site.port), "1"))
        with pytest.raises(IdentityRefused):
            async with there.pool.session(ServerLane.SCAN):
                """It does not come so far."""


async def test_a_key_lets_us_in_as_a_password_does(sftp_site: SftpServer, tmp_path: Path) -> None:
    """As `ssh-keygen` writes it; a key that cannot be read, and one where FTP wants a password, are told without it."""
    key = asyncssh.generate_private_key("ssh-ed25519")
    sftp_site.write("authorized", key.export_public_key().decode(), 0o644)
    asked = {
        "PubkeyAuthentication": "yes",
        "PasswordAuthentication": "no",
        "AuthorizedKeysFile": str(sftp_site.home / "authorized"),
        "StrictModes": "no",
    }
    texts = {
        "right": key.export_private_key().decode(),
        "other": asyncssh.generate_private_key("ssh-ed25519").export_private_key().decode(),
        "cut": key.export_private_key().decode()[:120],
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "hunter2", "-f", str(tmp_path / "locked")]
    await asyncio.to_thread(subprocess.run, words, check=True)
    refused = {"other": LoginRefused, "cut": PasswordMissing, "locked": PasswordMissing}
    with started_with(sftp_site, asked):
        async with world(sftp_site) as there:
            path, got = there.put("a.dat", CONTENT), bytearray()
            own = there.pools.pool_of(row_of(sftp_site, reference=f"file:{tmp_path / 'right'}"))
            async with own.session(ServerLane.TRANSFER) as session:
                await session.retrieve(path, 0, got.extend)
            assert got == CONTENT
            for name, kind in refused.items():
                pool = there.pools.pool_of(row_of(sftp_site, reference=f"file:{tmp_path / name}"))
                with pytest.raises(kind) as error:
                    async with pool.session(ServerLane.SCAN):
                        """It does not come so far."""
                assert (tmp_path / name).read_text()[60:100] not in f"{error.value} {error.value.hint}"
            by_ftp = there.pools.pool_of(row_of(sftp_site, "ftp://", f"file:{tmp_path / 'right'}"))
            with pytest.raises(PasswordMissing, match="holds a private key"):
                async with by_ftp.session(ServerLane.SCAN):
                    """It does not come so far."""
