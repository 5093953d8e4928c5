"""Blobs in a bucket and in a directory behave alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import CallerError, NotFound, OperatorError, TooLarge, Unreachable
from headrace.testing.rig.s3 import Bucket, S3Server
from headrace_smap.blobs import SEGMENT_BYTES_MAX, SMALL_BYTES, Blobs, WrongPath, check_path


def keys(bucket: Bucket) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
        "AWS_REGION": bucket.region,
    }


@pytest.fixture(params=["bucket", "directory"])
async def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "directory":
        made = Blobs((tmp_path / "not there yet").as_uri(), {})
    else:
        bucket = request.getfixturevalue("s3_bucket")
        made = Blobs(bucket.url, keys(bucket))
    await made.prepare()
    return made


async def test_what_was_put_is_got(blobs: Blobs) -> None:
    await blobs.put("raw/tiktok/vid 888é.json", b'{"a": 1}')
    await blobs.put("raw/tiktok/vid 888é.json", b'{"a": 2}')
    assert await blobs.get("raw/tiktok/vid 888é.json", 100) == b'{"a": 2}'
    assert [path async for path in blobs.list("raw")] == ["raw/tiktok/vid 888é.json"]


async def test_what_is_not_there_is_not_found(blobs: Blobs) -> None:
    with pytest.raises(NotFound, match=r"raw/none\.json"):
        await blobs.get("raw/none.json", 100)


async def test_nothing_lies_below_a_blob(blobs: Blobs) -> None:
    await blobs.put("raw/a.json", b"x")
    with pytest.raises(NotFound):
        await blobs.get("raw/a.json/b.json", 100)


@pytest.mark.parametrize("size", [0, 1, 100, SMALL_BYTES, SMALL_BYTES + 1])
async def test_a_blob_over_the_limit_is_not_read(blobs: Blobs, size: int) -> None:
    await blobs.put("raw/large.json", b"x" * (size + 1))
    with pytest.raises(TooLarge, match="limit of"):
        await blobs.get("raw/large.json", size)
    await blobs.put("raw/large.json", b"x" * size)
    assert len(await blobs.get("raw/large.json", size)) == size


async def test_deleting_twice_is_deleting(blobs: Blobs) -> None:
    await blobs.put("raw/a.json", b"x")
    for _ in range(2):
        await blobs.delete(["raw/a.json", "raw/never.json"])
    with pytest.raises(NotFound):
        await blobs.get("raw/a.json", 100)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "a/../../b",
        "..",
        "a//b",
        "a/./b",
        "a\nb",
        "a\x00b",
        "a\x85b",
        "a\u2028b",
        "a\u2029b",
        "a\ud800b",
        "é/" * 400 + "x",
    ],
)
async def test_a_path_that_leads_elsewhere_is_refused(blobs: Blobs, path: str) -> None:
    with pytest.raises(WrongPath):
        await blobs.get(path, 100)
    with pytest.raises(WrongPath):
        await blobs.put(path, b"")


def test_an_ordinary_path_is_itself() -> None:
    assert check_path("raw/tiktok/vid_888.json") == "raw/tiktok/vid_888.json"


FOREIGN = ["raw/a\u00a0b.json", "raw/👩\u200d🚀.json", "raw/a\u200bb.json", "raw/%2e%2e/a+b?c#d&e.json"]
NO_FILES = ["raw/a\\b.json", "a\\..\\b.json", "~/x.json", "~x"]
LONG = f"raw/{'é' * 128}.json"


@pytest.mark.parametrize("path", FOREIGN)
async def test_a_path_of_somebody_elses_is_put_read_and_deleted(blobs: Blobs, path: str) -> None:
    await put_read_and_deleted(blobs, path)
    await blobs.put(path, b"x")
    assert [found async for found in blobs.list("raw")] == [path]


@pytest.mark.parametrize("path", NO_FILES)
async def test_a_key_that_no_file_may_have_is_put_read_and_deleted_in_s3(s3_bucket: Bucket, path: str) -> None:
    await put_read_and_deleted(Blobs(s3_bucket.url, keys(s3_bucket)), path)
    whole = Blobs(s3_bucket.endpoint, keys(s3_bucket))
    await put_read_and_deleted(whole, f"{s3_bucket.bucket}/{path}")
    if "\\" in path:
        with pytest.raises(WrongPath, match="bucket"):
            await whole.get(f"{path.rpartition('/')[2]}/a.json", 10)


async def put_read_and_deleted(blobs: Blobs, path: str) -> None:
    await blobs.put(path, b"x")
    assert await blobs.get(path, 10) == b"x"
    await blobs.delete([path])
    with pytest.raises(NotFound):
        await blobs.get(path, 10)


async def test_the_longest_name_of_a_file_can_be_written(tmp_path: Path) -> None:
    await put_read_and_deleted(Blobs(tmp_path.as_uri(), {}), f"raw/{'x' * SEGMENT_BYTES_MAX}")


@pytest.mark.parametrize("path", [*NO_FILES, LONG, "raw/a#1"])
async def test_a_key_that_no_file_may_have_is_refused_in_a_directory(tmp_path: Path, path: str) -> None:
    blobs = Blobs(tmp_path.as_uri(), {})
    for asked in (blobs.get(path, 10), blobs.put(path, b"")):
        with pytest.raises(WrongPath):
            await asked


async def test_a_key_that_the_server_cannot_keep_is_a_wrong_path_and_no_server_that_is_away(s3_bucket: Bucket) -> None:
    """S3 itself takes segments of any length; servers that keep files do not, and they are the judges of that."""
    assert check_path(LONG) == LONG
    blobs = Blobs(s3_bucket.url, keys(s3_bucket))
    await blobs.put("raw/a.json", b"x")
    for asked in (blobs.get(LONG, 10), blobs.get(LONG, SMALL_BYTES + 1), blobs.put(LONG, b"x")):
        with pytest.raises(WrongPath, match="takes no such path"):
            await asked


async def test_what_cannot_be_there_is_deleted(blobs: Blobs) -> None:
    await blobs.put("raw/a.json", b"x")
    await blobs.delete(["../up", "~\\x", LONG, "raw", "raw/a#1", "raw/a.json"])
    with pytest.raises(NotFound):
        await blobs.get("raw/a.json", 10)


async def test_without_a_bucket_the_first_segment_names_it(s3_bucket: Bucket) -> None:
    whole = Blobs(s3_bucket.endpoint, keys(s3_bucket))
    await whole.prepare()
    await whole.put(f"{s3_bucket.bucket}/raw/a.json", b"x")
    assert await Blobs(s3_bucket.url, keys(s3_bucket)).get("raw/a.json", 10) == b"x"
    assert [path async for path in whole.list(f"{s3_bucket.bucket}/raw")] == [f"{s3_bucket.bucket}/raw/a.json"]
    await whole.put(f"{s3_bucket.bucket}-made/raw/b.json", b"y")
    assert await whole.get(f"{s3_bucket.bucket}-made/raw/b.json", 10) == b"y"
    with pytest.raises(WrongPath):
        await whole.get("only-a-bucket", 10)
    with pytest.raises(NotFound):
        await whole.get("no-such-bucket/raw/a.json", 10)


async def test_a_missing_bucket_is_made_once_and_is_nobodys_missing_post(s3_bucket: Bucket) -> None:
    url = f"{s3_bucket.endpoint}/{s3_bucket.bucket}-new"
    blobs = Blobs(url, keys(s3_bucket))
    with pytest.raises(Unreachable, match="no bucket"):
        await blobs.get("raw/a.json", 10)
    for _ in range(2):
        await blobs.prepare()
    await blobs.put("raw/a.json", b"x")
    await blobs.answers()


async def test_wrong_keys_are_told_as_such(s3_bucket: Bucket) -> None:
    wrong = {**keys(s3_bucket), "AWS_SECRET_ACCESS_KEY": "wrong"}
    path = f"{s3_bucket.bucket}/raw/a.json"
    blobs, whole = Blobs(s3_bucket.url, wrong), Blobs(s3_bucket.endpoint, wrong)
    for asked in (blobs.get("raw/a.json", 10), blobs.answers(), whole.get(path, 10), whole.answers(path)):
        with pytest.raises(Unreachable, match="credentials"):
            await asked
    await Blobs(s3_bucket.endpoint, keys(s3_bucket)).answers(path)


async def test_a_server_that_is_away_is_unreachable_and_comes_back(s3_server: S3Server, s3_bucket: Bucket) -> None:
    blobs = Blobs(s3_bucket.url, keys(s3_bucket))
    await blobs.put("raw/a.json", b"x")
    whole = Blobs(s3_bucket.endpoint, keys(s3_bucket))
    await whole.answers()
    s3_server.kill()
    for asked in (blobs.get("raw/a.json", 10), blobs.answers(), whole.answers()):
        with pytest.raises(Unreachable):
            await asked
    s3_server.restart()
    assert await blobs.get("raw/a.json", 10) == b"x"


@pytest.mark.parametrize("url", ["ftp://h/b", "http://", "http://h/b/c", "bucket"])
def test_a_place_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(CallerError, match="SMAP_S3_URL"):
        Blobs(url, {})


@pytest.mark.parametrize(
    "url", ["http://u:secret@h/b", "ftp://u:secret@h/b", "http://u:secret[@h/b", "http://u:secret@h/a/b"]
)
def test_a_password_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(CallerError, match="SMAP_S3_URL") as raised:
        Blobs(url, {})
    assert "secret" not in f"{raised.value} {raised.value.hint}"


async def test_a_directory_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot be made") as raised:
        await Blobs((tmp_path / "file" / "below").as_uri(), {}).prepare()
    assert "SMAP_S3_URL" in raised.value.hint
