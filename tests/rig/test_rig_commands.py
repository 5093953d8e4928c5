"""`headrace rig …` as a user has it: servers that stay, faults that are felt, and nothing left afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import smtplib
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest
import redis
from obstore.store import S3Store
from redis.backoff import NoBackoff
from redis.retry import Retry
from waiting import by_the_clock, until

from headrace.testing.rig import places
from headrace.testing.rig.children import family, started_at

Command = Callable[..., "subprocess.CompletedProcess[str]"]
NUMBERS = count(1)
SOON_S = 60.0


class Rig:
    """Command lines about one rig of this test."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self.name = f"test-{os.getpid()}-{next(NUMBERS)}"
        self.variables = {"HEADRACE_RIG": self.name}

    def __call__(self, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        done = self._command("rig", *words, **self.variables, **variables)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json").stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "headrace", "rig", *words],
            env={**os.environ, **self.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def server(self, name: str) -> Any:
        return next(each for each in self.json("status")["servers"] if each["name"] == name)

    @property
    def folder(self) -> Path:
        return places.homes() / f"keeper-{self.name}"


@pytest.fixture
def rig(headrace_command: Command) -> Iterator[Rig]:
    found = Rig(headrace_command)
    yield found
    found("down")
    assert not found.folder.exists()


@contextlib.contextmanager
def redis_at(url: str, timeout_s: float = 60.0) -> Iterator[redis.Redis]:
    """A client that tells of the first failure instead of trying again."""
    with redis.Redis.from_url(url, socket_timeout=timeout_s, retry=Retry(NoBackoff(), 0)) as client:
        yield client


def fails(url: str, *kinds: type[Exception]) -> None:
    """Whoever does not answer is not waited for; what breaks is told, on a busy machine a little later."""
    timeout_s = 0.3 if redis.TimeoutError in kinds else 60.0
    with redis_at(url, timeout_s) as client, pytest.raises(kinds):
        client.ping()


def answers(url: str) -> bool:
    try:
        with redis_at(url, timeout_s=5.0) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False


def bucket_at(variables: dict[str, str]) -> S3Store:
    return S3Store(
        "nowhere",
        endpoint=variables["S3_URL"],
        access_key_id=variables["AWS_ACCESS_KEY_ID"],
        secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region=variables["AWS_REGION"],
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )


def is_gone(server: Any) -> bool:
    """Nothing is left of a server: no process, no directory, nobody at its ports."""
    if started_at(server["pid"]) is not None or Path(server["log"]).parent.exists():
        return False
    for url in (server["url"], server["direct_url"]):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) == 0:
                return False
    return True


def test_servers_stay_up_for_real_clients_and_leave_nothing(rig: Rig) -> None:
    told = rig.json("up", "redis", "s3", "smtp", "--set", "redis.maxmemory=64mb")
    servers = {server["name"]: server for server in told["servers"]}
    assert {server["state"] for server in servers.values()} == {"up"}
    assert all(server["version"] and server["url"] != server["direct_url"] for server in servers.values())
    assert started_at(told["keeper"]) is not None
    with redis_at(servers["redis"]["url"]) as client:
        client.set("key", "value")
        assert client.config_get("maxmemory") == {"maxmemory": str(64 * 1024 * 1024)}
    # Only a request that is signed with the right keys learns that there is no such bucket.
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        obstore.get(bucket_at(servers["s3"]["variables"]), "key")
    address = urlsplit(servers["smtp"]["url"])
    with smtplib.SMTP(str(address.hostname), address.port or 0, timeout=60) as mail:
        assert mail.sendmail("a@example.org", ["b@example.org"], "Subject: hello\r\n\r\n") == {}
    assert rig.json("up", "redis")["servers"][0]["pid"] == servers["redis"]["pid"]
    assert rig.json("down", "smtp") == {"rig": rig.name, "removed": ["smtp"]}
    assert is_gone(servers["smtp"])
    assert [server["name"] for server in rig.json("status")["servers"]] == ["redis", "s3"]
    everybody = [pid for server in servers.values() for pid in (server["pid"], *family(server["pid"]))]
    assert "down: redis, s3" in rig("down").stdout
    assert all(is_gone(server) for server in servers.values())
    assert [pid for pid in (told["keeper"], *everybody) if started_at(pid) is not None] == []
    assert not rig.folder.exists()
    assert rig("down").stdout == rig("status").stdout == "nothing is up\n"


def test_faults_on_the_line_are_felt_by_a_client(rig: Rig) -> None:
    server = rig.json("up", "redis")["servers"][0]
    url = server["url"]
    with redis_at(url) as client:
        assert rig.json("break", "redis", "latency", "150ms")["faults"] == ["latency 150ms"]
        begun = time.monotonic()
        client.ping()
        assert time.monotonic() - begun >= 0.15
        assert "latency 150ms" in rig("status").stdout
        rig("break", "redis", "heal")
        assert rig.server("redis")["faults"] == []
        rig("break", "redis", "bandwidth", "20k")
        begun = time.monotonic()
        client.set("large", b"x" * 10_000)
        assert time.monotonic() - begun >= 0.25
    rig("break", "redis", "heal")
    # The library looks at a connection before it uses it again, and would hide that this one broke.
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=60) as line:
        line.sendall(b"PING\r\n")
        assert line.recv(100) == b"+PONG\r\n"
        rig("break", "redis", "reset")
        with pytest.raises(ConnectionResetError):
            line.recv(100)
    rig("break", "redis", "blackhole")
    fails(url, redis.TimeoutError)
    rig("break", "redis", "heal")
    rig("break", "redis", "cut-reply", "precious")
    with redis_at(url) as client, pytest.raises(redis.ConnectionError):
        client.set("precious", "arrived")
    with redis_at(url) as client:
        assert client.get("precious") == b"arrived"
    rig("break", "redis", "refuse", "--for", "3s")
    fails(url, redis.ConnectionError)
    until(lambda: answers(url), "Redis answers again", SOON_S)
    assert rig.server("redis")["faults"] == []


def test_a_process_can_be_killed_stopped_frozen_and_brought_back(rig: Rig) -> None:
    url = rig.json("up", "redis")["servers"][0]["url"]
    with redis_at(url) as client:
        client.set("key", "kept")
    assert rig.json("break", "redis", "kill")["state"] == "killed"
    fails(url, redis.ConnectionError)
    assert rig.json("break", "redis", "start")["state"] == "up"
    assert rig.json("break", "redis", "stop")["state"] == "stopped"
    assert rig.json("up", "redis")["servers"][0]["state"] == "up"
    with redis_at(url) as client:
        assert client.get("key") == b"kept"
    assert rig.json("break", "redis", "pause")["state"] == "paused"
    fails(url, redis.TimeoutError)
    assert rig.json("break", "redis", "resume")["state"] == "up"
    rig("break", "redis", "pause", "--for", "300ms")
    until(lambda: answers(url), "Redis answers again", SOON_S)
    rig("break", "redis", "pause")
    rig("break", "redis", "refuse")
    assert rig.json("break", "redis", "heal")["state"] == "up"

    def loses_what_is_young() -> None:
        with redis_at(url) as client:
            client.set("young", "lost")
        rig("break", "redis", "restart", "--lose-last-second")
        with redis_at(url) as client:
            assert client.get("young") is None

    by_the_clock(loses_what_is_young)
    os.kill(rig.server("redis")["pid"], signal.SIGKILL)
    until(lambda: rig.server("redis")["state"] == "killed", "the death is noticed", SOON_S)


def test_a_killed_keeper_takes_its_servers_along_and_stops_nobody(rig: Rig) -> None:
    told = rig.json("up", "redis", "smtp")
    # A frozen server cannot follow its keeper: the next one sweeps it away.
    frozen = next(server for server in told["servers"] if server["name"] == "redis")
    rig("break", "redis", "pause")
    os.kill(told["keeper"], signal.SIGKILL)
    until(lambda: started_at(told["keeper"]) is None, "the keeper has ended", SOON_S)
    assert rig.json("status")["servers"] == []
    again = rig.json("up", "redis")
    assert again["keeper"] != told["keeper"]
    assert answers(again["servers"][0]["url"])
    assert is_gone(frozen)
    until(lambda: all(is_gone(server) for server in told["servers"]), "nothing is left of the servers", SOON_S)


def test_a_keeper_that_is_told_to_end_removes_everything(rig: Rig) -> None:
    told = rig.json("up", "redis")
    os.kill(told["keeper"], signal.SIGTERM)
    until(lambda: started_at(told["keeper"]) is None, "the keeper has ended", SOON_S)
    assert is_gone(told["servers"][0])
    assert not rig.folder.exists()


def test_a_keeper_whose_directory_was_cleaned_away_ends(rig: Rig) -> None:
    told = rig.json("up", "redis")
    shutil.rmtree(rig.folder)
    again = rig.json("up", "redis")
    until(lambda: started_at(told["keeper"]) is None, "the keeper has ended", SOON_S)
    assert is_gone(told["servers"][0])
    assert answers(again["servers"][0]["url"])


def test_whoever_does_not_wait_for_a_server_does_not_get_it(rig: Rig) -> None:
    rig("up", "smtp")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(rig.folder / "socket"))
        caller.sendall(b'{"verb": "up", "names": ["redis"], "settings": {}}\n')
    log = rig.folder / "keeper.log"
    until(lambda: "nobody waits for redis" in log.read_text(), "the keeper notices", SOON_S)
    assert [server["name"] for server in rig.json("status")["servers"]] == ["smtp"]


def test_a_caller_who_says_nothing_keeps_nobody_from_ending(rig: Rig) -> None:
    rig("up", "redis")
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(rig.folder / "socket"))
        assert stat.S_IMODE((rig.folder / "socket").stat().st_mode) == 0o600
        assert stat.S_IMODE(rig.folder.stat().st_mode) == 0o700
        assert rig("down").stdout == "down: redis\n"


def test_two_that_start_at_once_have_one_keeper(rig: Rig) -> None:
    lines = [rig.start("up", name, "--json") for name in ("redis", "smtp", "redis")]
    told = [json.loads(line.communicate(timeout=180)[0]) for line in lines]
    assert len({each["keeper"] for each in told}) == 1
    assert told[0]["servers"][0]["pid"] == told[2]["servers"][0]["pid"]
    assert {server["name"] for server in rig.json("status")["servers"]} == {"redis", "smtp"}


def test_a_server_that_cannot_start_tells_its_log_and_takes_its_company_along(rig: Rig) -> None:
    before = rig.json("up", "smtp")
    failed = rig("up", "redis", "s3", "--set", "redis.appendfsync=sometimes", code=1)
    assert "appendfsync" in failed.stderr
    assert Path(failed.stderr.strip().split("log: ")[-1]).exists()
    assert [server["name"] for server in rig.json("status")["servers"]] == ["smtp"]
    assert rig.json("status")["keeper"] == before["keeper"]
    error = json.loads(rig("up", "redis", "--set", "redis.appendfsync=sometimes", "--json", code=1).stdout)["error"]
    assert error["kind"] == "OperatorError"


def test_other_settings_for_a_server_that_is_up_are_refused(rig: Rig) -> None:
    rig("up", "redis", "--set", "redis.maxmemory=64mb")
    rig("up", "redis", "--set", "redis.maxmemory=64mb")
    assert "rig down redis" in rig("up", "redis", "--set", "redis.maxmemory=65mb", code=4).stderr


def test_the_variables_can_be_sourced_by_a_shell(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "env").write_text(rig("up", "redis", "s3", "--env").stdout)
    asked = 'set -eu; . ./env; echo "$REDIS_URL"; echo "$S3_URL $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY"'
    done = subprocess.run(["sh", "-c", asked], cwd=tmp_path, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == rig.server("redis")["url"]
    assert second.split() == [
        rig.server("s3")["variables"][name] for name in ("S3_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    assert rig("status", "--env").stdout == (tmp_path / "env").read_text()


def test_in_the_foreground_they_stop_with_the_command(rig: Rig) -> None:
    line = rig.start("up", "redis", "--foreground", "--json")
    assert line.stdout is not None
    told = json.loads(line.stdout.readline())
    assert told["keeper"] == line.pid
    assert answers(told["servers"][0]["url"])
    assert "--name" in rig("up", "smtp", "--foreground", code=4).stderr
    line.send_signal(signal.SIGINT)
    line.communicate(timeout=120)
    assert line.returncode == 0
    assert is_gone(told["servers"][0])


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (["up"], 2, ["which servers", "postgres", "rabbitmq"]),
        (["up", "oracle"], 3, ["oracle", "postgres"]),
        (["up", "redis", "--set", "appendfsync"], 2, ["--set redis.appendfsync=always"]),
        (["up", "redis", "--set", "s3.x=1"], 2, ["s3 is not among"]),
        (["up", "redis", "--name", "../x"], 2, ["../x"]),
        (["up", "redis", "--json", "--env"], 2, ["choose one"]),
        (["break", "redis", "reset"], 3, ["nothing is up", "headrace rig up redis"]),
        (["break", "redis", "refuse", "--for", "long"], 2, ["--for 5s"]),
        (["doctor", "oracle"], 3, ["oracle", "postgres"]),
        (["get", "oracle"], 3, ["oracle", "postgres"]),
    ],
)
def test_a_wrong_line_about_the_rig_says_what_to_do(rig: Rig, line: list[str], code: int, words: list[str]) -> None:
    done = rig(*line, code=code)
    assert [word for word in words if word not in done.stderr] == []


def test_nonsense_about_a_server_that_is_up_says_what_is_possible(rig: Rig) -> None:
    rig("up", "smtp")
    for line, code, words in (
        (["redis", "reset"], 3, ["up: smtp"]),
        (["smtp", "explode"], 2, ["latency 200ms", "restart"]),
        (["smtp", "latency", "soon"], 2, ["latency 200ms"]),
        (["smtp", "kill", "reset"], 2, ["rig break smtp kill"]),
        (["smtp", "start", "--for", "1s"], 2, ["kill, stop, pause"]),
        (["smtp", "heal", "--for", "1s"], 2, ["--for"]),
        (["smtp", "restart", "--lose-last-second"], 2, ["redis restart --lose-last-second"]),
        (["smtp", "reset", "--lose-last-second"], 2, ["redis restart --lose-last-second"]),
    ):
        told = rig("break", *line, code=code).stderr
        assert [word for word in words if word not in told] == [], told
    assert "up: smtp" in rig("down", "redis", code=3).stderr
    assert rig.server("smtp")["state"] == "up"


def test_the_doctor_names_the_command_for_what_is_missing(rig: Rig, tmp_path: Path) -> None:
    assert rig.json("doctor", "redis")["complete"] is True
    missing = rig("doctor", "s3", "--json", code=1, HEADRACE_CACHE=str(tmp_path))
    findings = json.loads(missing.stdout)["findings"]
    assert ["headrace rig get" in finding["command"] for finding in findings if not finding["fine"]] == [True]
    assert "headrace rig get" in rig("doctor", "s3", code=1, HEADRACE_CACHE=str(tmp_path)).stdout


def test_what_is_there_is_not_obtained_again(rig: Rig) -> None:
    rig("get", "redis", "smtp")
    assert rig.json("get", "redis", "smtp") == {"obtained": 0}
