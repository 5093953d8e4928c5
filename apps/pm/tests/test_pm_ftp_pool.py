"""Connections: kept, checked, bounded, dropped after any error; and what servers that misbehave mean."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pm_ftp_world import PASSWORD, QUICK, World, row_of, started_with, world
from waiting import eventually, turn

from headrace.errors import HeadraceError
from headrace.services import Backoff, CircuitBreaker
from headrace.testing.rig.ftp import FtpFolder, FtpServer
from headrace.testing.rig.proxy import Proxy
from headrace.testing.rig.sftp import SftpServer
from headrace.testing.twins import turns_red
from headrace_pm.ftp.connections import ServerPools
from headrace_pm.ftp.errors import LoginRefused, PasswordMissing, ServerAway, ServerBusy
from headrace_pm.ftp.passwords import PasswordReference, Secret
from headrace_pm.ftp.pool import CHECK_AFTER_S, ServerLane, ServerPool
from headrace_pm.ftp.sessions.file_session import FileSession


class ManualClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def watched(
    there: World, clock: ManualClock, kind: type[ServerPool] = ServerPool, most: int = 3
) -> AsyncIterator[ServerPool]:
    """A pool of the world's server by a clock of the test."""
    breaker = CircuitBreaker(backoff=Backoff(10.0, 10.0))
    pool = kind(there.row.key, there.pool._open_session, most, clock, breaker)
    try:
        yield pool
    finally:
        await pool.close()


async def listed(pool: ServerPool, there: World) -> int:
    async with pool.session(ServerLane.SCAN) as session:
        return len((await session.listing(there.path)).files)


async def hold(pool: ServerPool, lane: ServerLane, count: int) -> tuple[list[asyncio.Task[None]], asyncio.Event]:
    """So many tasks that hold a connection, or wait for one, until the event."""
    end = asyncio.Event()

    async def one() -> None:
        async with pool.session(lane):
            await end.wait()

    return [asyncio.create_task(one()) for _ in range(count)], end


async def test_a_connection_is_used_again(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there:
        for _ in range(20):
            await listed(there.pool, there)
        assert ftp_site.login_count() == 1


async def drops_after_any_error(ftp_site: FtpServer, kind: type[ServerPool]) -> None:
    async with world(ftp_site) as there, watched(there, ManualClock(), kind) as pool:
        with pytest.raises(ZeroDivisionError):
            async with pool.session(ServerLane.SCAN):
                _ = 1 // 0
        assert pool.open_count == 0
        with pytest.raises(HeadraceError):
            async with pool.session(ServerLane.SCAN) as session:
                await session.listing(b"/none")
        assert pool.open_count == 0
        assert await listed(pool, there) == 0


class KeepsAll(ServerPool):
    """Lends again whatever comes back."""

    async def _give_back(self, state: object, lent: FileSession, is_sound: bool) -> None:
        await super()._give_back(state, lent, True)  # type: ignore[arg-type]


async def test_a_connection_is_dropped_after_any_error(ftp_site: FtpServer) -> None:
    await drops_after_any_error(ftp_site, ServerPool)

    async def kept(self: None) -> None:
        await drops_after_any_error(ftp_site, KeepsAll)

    await turns_red(kept)


async def survives_a_restart(ftp_site: FtpServer, kind: type[ServerPool]) -> None:
    clock = ManualClock()
    async with world(ftp_site) as there, watched(there, clock, kind) as pool:
        await listed(pool, there)
        ftp_site.restart()
        clock.now += CHECK_AFTER_S
        try:
            assert await listed(pool, there) == 0
        except ServerAway as error:
            raise AssertionError("a dead connection was lent") from error
        assert pool.counts.dropped == 1


class NeverAsks(ServerPool):
    """Lends a connection without a NOOP."""

    async def _checked(self, state: object) -> FileSession | None:
        idle = state.idle  # type: ignore[attr-defined]
        return idle.pop()[0] if idle else None


async def test_a_connection_that_died_meanwhile_is_not_lent(ftp_site: FtpServer) -> None:
    await survives_a_restart(ftp_site, ServerPool)

    async def unasked(self: None) -> None:
        await survives_a_restart(ftp_site, NeverAsks)

    await turns_red(unasked)


async def test_transfers_are_bounded_and_do_not_keep_listings_waiting(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there, watched(there, ManualClock(), most=3) as pool:
        tasks, end = await hold(pool, ServerLane.TRANSFER, 10)
        await eventually(lambda: pool.open_count == 3, "three are open")
        assert await listed(pool, there) == 0
        async with pool.session(ServerLane.MOVE) as session:
            await session.noop()
        assert pool.open_count == 5
        end.set()
        await asyncio.gather(*tasks)
        assert pool.counts.opened == 5
        await pool.close()
        assert pool.open_count == 0


async def test_a_server_that_says_421_gets_fewer_connections(ftp_site: FtpServer) -> None:
    clock = ManualClock()
    with started_with(ftp_site, {"connections_max": "2"}):
        async with world(ftp_site) as there, watched(there, clock, most=5) as pool:
            tasks, end = await hold(pool, ServerLane.TRANSFER, 5)
            await eventually(lambda: pool.counts.refused_busy == 3, "three were refused")
            assert pool.transfers_now == 2
            end.set()
            await asyncio.gather(*tasks)
            # Listing needs a place of its own; the first try makes room for the second.
            with pytest.raises(ServerBusy):
                await listed(pool, there)
            assert pool.transfers_now == 1
            await eventually(lambda: scanned(pool, there), "there is room")
            clock.now += 61
            async with pool.session(ServerLane.TRANSFER):
                assert pool.transfers_now == 2, "one more is tried now and then"


async def scanned(pool: ServerPool, there: World) -> bool:
    try:
        return await listed(pool, there) == 0
    except ServerBusy:
        return False


async def test_a_server_that_refuses_everybody_is_asked_once_per_pause(ftp_site: FtpServer) -> None:
    clock = ManualClock()
    with started_with(ftp_site, {"connections_max": "0"}):
        async with world(ftp_site) as there, watched(there, clock) as pool:
            with pytest.raises(ServerBusy) as busy:
                await listed(pool, there)
            assert busy.value.heals
            with pytest.raises(ServerAway, match="asked again in"):
                await listed(pool, there)
            assert pool.is_away
            assert pool.counts.refused_busy == 1
    clock.now += 20
    async with world(ftp_site) as there:
        assert await listed(there.pool, there) == 0


async def asks_once_per_pause(site: FtpFolder, breaker: CircuitBreaker | None) -> None:
    clock = ManualClock()
    with Proxy(site.url) as proxy:
        async with world(site, port=proxy.port) as there, AsyncExitStack() as stack:
            pool = ServerPool("x", there.pool._open_session, 2, clock, breaker)
            stack.push_async_callback(pool.close)
            proxy.refuse()
            for _ in range(5):
                with pytest.raises(ServerAway):
                    await listed(pool, there)
            assert pool.counts.failed == 1, "nobody knocks at a closed door five times"
            proxy.heal()
            clock.now += 20
            assert await listed(pool, there) == 0
            assert not pool.is_away


async def test_a_server_that_is_down_is_asked_once_per_pause(ftp_site: FtpServer) -> None:
    await asks_once_per_pause(ftp_site, CircuitBreaker(backoff=Backoff(10.0, 10.0)))

    async def without(self: None) -> None:
        await asks_once_per_pause(ftp_site, CircuitBreaker(backoff=Backoff(0.0, 0.0)))

    await turns_red(without)


@pytest.mark.parametrize("site", ["ftp_site", "vsftpd_site", "sftp_site"])
async def test_a_wrong_password_is_told_without_it(
    site: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    server: FtpFolder = request.getfixturevalue(site)
    secret = "hunter2-and-more"
    settings = replace(QUICK, environment={"PM_TEST_PASSWORD": secret})
    async with world(server, settings) as there:
        with pytest.raises(LoginRefused) as refused:
            await listed(there.pool, there)
        told = "".join(traceback.format_exception(refused.value)) + repr(there.row) + repr(there.pool.__dict__)
        assert secret not in told + repr(there.settings) + caplog.text
        assert refused.value.heals, "an operator puts it right, and the files wait"


class Quotes(Secret):
    """Leaves a text of the server as it is."""

    __slots__ = ()

    def removed_from(self, text: str) -> str:
        return text


class QuotedReference(PasswordReference):
    """Leads to a password that nobody takes out of a text."""

    def reveal(self, variables: Mapping[str, str]) -> Secret:
        return Quotes(super().reveal(variables).value)


async def hides_an_echo(ftp_site: FtpServer, kind: type[PasswordReference]) -> None:
    settings = replace(QUICK, environment={"PM_TEST_PASSWORD": "hunter2-and-more"})
    with started_with(ftp_site, {"echo_password": "yes"}):
        async with world(ftp_site, settings) as there:
            pool = there.pools.pool_of(replace(there.row, password=kind("env", "PM_TEST_PASSWORD")))
            with pytest.raises(LoginRefused) as refused:
                await listed(pool, there)
            assert "530" in str(refused.value)
            assert "hunter2" not in "".join(traceback.format_exception(refused.value))


async def test_a_server_that_repeats_the_password_is_not_quoted(ftp_site: FtpServer) -> None:
    await hides_an_echo(ftp_site, PasswordReference)

    async def quoted(self: None) -> None:
        await hides_an_echo(ftp_site, QuotedReference)

    await turns_red(quoted)


async def test_a_password_is_read_when_it_is_needed(ftp_site: FtpServer, tmp_path: Path) -> None:
    place = tmp_path / "password"
    pools = ServerPools(QUICK)
    pool = pools.pool_of(row_of(ftp_site, reference=f"file:{place}"))
    with pytest.raises(PasswordMissing, match="No such file") as missing:
        async with pool.session(ServerLane.SCAN):
            """It does not come so far."""
    assert missing.value.heals
    place.write_text("rig\n")
    pool = ServerPools(QUICK).pool_of(row_of(ftp_site, reference=f"file:{place}"))
    async with pool.session(ServerLane.SCAN) as session:
        await session.noop()
    await pool.close()
    await pools.close()


async def test_a_server_that_left_the_table_is_left_alone(ftp_site: FtpServer) -> None:
    async with world(ftp_site) as there:
        assert await listed(there.pool, there) == 0
        before = there.pool
        other = replace(there.row, password=PasswordReference("file", "/elsewhere"))
        await there.pools.keep_only({other})
        assert (before.open_count, there.pools.pools()) == (0, [])
        assert await listed(there.pool, there) == 0, "and it may come back"


def test_a_secret_shows_stars() -> None:
    secret = PasswordReference.read("env:PM_TEST_PASSWORD").reveal(PASSWORD)
    assert f"{secret} {secret!r} {secret!s} {[secret]}" == "*** *** *** [***]"
    assert secret.value == "rig"
    assert secret.removed_from("530 rig is wrong") == "530 *** is wrong"
    for value in ("", "two\nlines"):
        with pytest.raises(PasswordMissing):
            PasswordReference.read("env:X").reveal({"X": value})
    assert isinstance(secret, Secret)


@pytest.mark.parametrize("mlsd", ["yes", "no"])
async def test_a_listing_that_is_cut_is_no_short_folder(ftp_site: FtpServer, mlsd: str) -> None:
    async with world(ftp_site) as there:
        for number in range(100):
            there.put(f"{number:03}.dat")
        with started_with(ftp_site, {"cut_listing_after": "310", "cuts": "1", "mlsd": mlsd}):
            with pytest.raises(ServerAway):
                await listed(there.pool, there)
            assert await listed(there.pool, there) == 100


async def test_a_line_that_is_half_open_is_given_up(ftp_site: FtpServer, fault_proxy: Callable[[str], Proxy]) -> None:
    proxy = fault_proxy(ftp_site.url)
    impatient = replace(QUICK, ftp_answer_s=0.3, ftp_connect_s=0.3)
    async with world(ftp_site, impatient, port=proxy.port) as there:
        assert await listed(there.pool, there) == 0
        proxy.black_hole()
        with pytest.raises(ServerAway, match="no answer in time"):
            await listed(there.pool, there)
        assert there.pool.open_count == 0
        proxy.heal()


@asynccontextmanager
async def waiting_for(pool: ServerPool) -> AsyncIterator[asyncio.Task[None]]:
    tasks, end = await hold(pool, ServerLane.SCAN, 1)
    await turn()
    yield tasks[0]
    end.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("site", ["ftp_site", "sftp_site"])
async def test_who_waits_for_a_connection_can_be_cancelled(site: str, request: pytest.FixtureRequest) -> None:
    server: FtpServer | SftpServer = request.getfixturevalue(site)
    async with world(server) as there, watched(there, ManualClock()) as pool:
        async with waiting_for(pool):
            await eventually(lambda: pool.open_count == 1, "one is lent")
            waiting, _ = await hold(pool, ServerLane.SCAN, 2)
            await turn()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        assert await listed(pool, there) == 0, "no place was lost"
