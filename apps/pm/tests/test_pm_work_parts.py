"""Parts of the way of a file that need no server: settings, shared batches, the breaker on memory."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from pm_rows import rows

from headrace.errors import CallerError
from headrace.services import Sources, read, table
from headrace_pm.counters.batch import batches
from headrace_pm.counters.dictionary import NetworkDictionary
from headrace_pm.network.generated_folder import FolderPlan, GeneratedFolder
from headrace_pm.settings import PmSettings
from headrace_pm.wire.byte_source import FileBytes
from headrace_pm.wire.counter_file import CounterFile
from headrace_pm.work.memory import MemoryBreaker, anonymous_bytes
from headrace_pm.work.shared_batches import KEPT_MAX, SharedBatches

PAGE = Path(__file__).resolve().parents[3] / "docs" / "pm.md"
DSN = "mysql://pm:hush-hush@db:3307/pm"


def test_the_page_has_every_setting_of_the_application() -> None:
    page = PAGE.read_text("utf-8").splitlines()
    assert [line for line in table(PmSettings, "PM_").splitlines() if line not in page] == []


def test_settings_are_read_by_their_names_and_secrets_stay_hidden() -> None:
    variables = {
        "PM_MYSQL_DSN": DSN,
        "PM_REDIS_URL": "redis://r:6379/2",
        "REDIS_PASSWORD": "very-secret",
        "PM_KAFKA_TOPIC": "t",
        "PM_DOWNLOADS": "3",
        "PM_MYSQL_PARALLEL": "7",
    }
    found = read(PmSettings, Sources("PM_", variables))
    assert (found.redis_password, found.kafka_topic, found.downloads) == ("very-secret", "t", 3)
    assert found.tables_url == f"{DSN}?lanes=11", "what holds files does not wait behind rows"
    assert not found.is_embedded
    assert not {"hush-hush", "very-secret"} & set(repr(found).replace(":", " ").replace("'", " ").split())
    stated = read(PmSettings, Sources("PM_", {"PM_MYSQL_DSN": f"{DSN}?lanes=3"}))
    assert stated.tables_url == f"{DSN}?lanes=3"
    bare = read(PmSettings, Sources("PM_", {"PM_HOME": "/elsewhere"}))
    assert bare.is_embedded
    assert bare.tables_url == "sqlite:////elsewhere/pm.db"


@pytest.mark.parametrize(("name", "value"), [("PM_MYSQL_DSN", "db:secret"), ("PM_REDIS_URL", "r:secret")])
def test_an_address_that_is_none_is_refused_and_not_repeated(name: str, value: str) -> None:
    with pytest.raises(CallerError, match=name) as refused:
        read(PmSettings, Sources("PM_", {name: value}))
    assert "secret" not in str(refused.value)


@pytest.fixture
def shared(tmp_path: Path) -> SharedBatches:
    folder = GeneratedFolder(FolderPlan(1, 60_000))
    path = tmp_path / "file"
    path.write_bytes(folder.file(0).content())
    source = FileBytes(path)
    return SharedBatches(source, CounterFile(source), NetworkDictionary(folder.network.dictionary), 1_000)


def test_two_sinks_that_keep_pace_decode_a_file_once(shared: SharedBatches, tmp_path: Path) -> None:
    one, other = shared(0), shared(0)
    taken: tuple[list[object], list[object]] = ([], [])
    # One is ahead, then the other: by turns, and in pieces of different sizes.
    for pieces in (*range(1, 8), *range(7, 0, -1), 4):
        taken[0].extend(rows(batch) for batch in islice(one, pieces))
        taken[1].extend(rows(batch) for batch in islice(other, 8 - pieces))
    with FileBytes(tmp_path / "file") as source:
        truth = [rows(batch) for batch in batches(CounterFile(source), shared._dictionary, 1_000)]
    assert taken == (truth, truth)
    assert len(truth) == shared.decoded == 60


def test_a_sink_that_fell_behind_decodes_for_itself_and_nothing_grows(shared: SharedBatches) -> None:
    ahead = [batch.number for batch in shared(0)]
    assert ahead == list(range(60))
    assert len(shared._kept) == KEPT_MAX
    assert [batch.number for batch in shared(30)] == list(range(30, 60))
    assert shared.decoded == 60 + (60 - KEPT_MAX - 30), "from where the kept ones begin it takes them"
    assert len(shared._kept) <= KEPT_MAX
    shared.close()
    with pytest.raises(RuntimeError, match="closed"):
        next(shared(0))


def test_memory_stops_claims_and_lets_them_go_on() -> None:
    used, in_hand = [50], [3]
    breaker = MemoryBreaker(100, lambda: in_hand[0], lambda: used[0])
    assert breaker.accepting()
    used[0] = 101
    assert not breaker.accepting()
    used[0] = 95
    assert not breaker.accepting(), "there is a gap between stop and go"
    used[0] = 90
    assert breaker.accepting()
    used[0] = 200
    assert not breaker.accepting()
    in_hand[0] = 0
    assert breaker.accepting(), "with nothing in hand it would stop for ever"
    assert breaker.trips == 2


def test_memory_is_what_is_in_no_file() -> None:
    before = anonymous_bytes()
    taken = bytearray(b"x" * 32_000_000)
    assert anonymous_bytes() - before > 16_000_000
    assert len(taken) == 32_000_000
