"""Blobs in a bucket and in a directory keep one contract; and what only one of them can meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.blobs import SEGMENT_BYTES_MAX, SMALL_BYTES, Blobs, WrongPath, check_path
from headrace.errors import CallerError, NotFound, OperatorError, TooLarge, Unreachable
from headrace.testing.contracts import BlobsContract
from headrace.testing.contracts.blobs import pieces, put_read_and_deleted, streamed
from headrace.testing.rig.s3 import Bucket, S3Server
from headrace.testing.twins import turns_red

SETTING = "SHOP_S3_URL"
NO_FILES = ["raw/a\\b.json", "a\\..\\b.json", "~/x.json", "~x"]
LONG = f"raw/{'é' * 128}.json"


def keys(bucket: Bucket) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": bucket.access_key,
        "AWS_SECRET_ACCESS_KEY": bucket.secret_key,
        "AWS_REGION": bucket.region,
    }


def of_bucket(bucket: Bucket) -> Blobs:
    return Blobs(bucket.url, keys(bucket), SETTING)


def of_server(bucket: Bucket) -> Blobs:
    return Blobs(bucket.endpoint, keys(bucket), SETTING)


def of_directory(place: Path, kind: type[Blobs] = Blobs) -> Blobs:
    return kind(place.as_uri(), {}, SETTING)


class TestBlobsInADirectory(BlobsContract):
    @pytest.fixture
    async def blobs(self, tmp_path: Path) -> Blobs:
        blobs = of_directory(tmp_path / "not there yet")
        await blobs.prepare()
        return blobs


class TestBlobsInABucket(BlobsContract):
    @pytest.fixture
    async def blobs(self, s3_bucket: Bucket) -> Blobs:
        """A bucket that is not there yet."""
        blobs = Blobs(f"{s3_bucket.url}-new", keys(s3_bucket), SETTING)
        await blobs.prepare()
        return blobs


# Broken twins: a directory without the guard


class Straying(Blobs):
    """Goes where a path leads."""

    async def get(self, path: str, bytes_max: int) -> bytes:
        return (Path(str(self._place.directory)) / path).read_bytes()


class Unlimited(Blobs):
    async def get(self, path: str, bytes_max: int) -> bytes:
        return await streamed(self, path)


class InPlace(Blobs):
    """Writes where the blob will be."""

    async def put(self, path: str, data: bytes | AsyncIterator[bytes]) -> None:  # type: ignore[override]
        file = Path(str(self._place.directory)) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as out:
            if isinstance(data, bytes):
                out.write(data)
            else:
                async for piece in data:
                    out.write(piece)


class FromTheStart(Blobs):
    async def stream(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        async for piece in super().stream(path, 0, end):
            yield piece


class InOnePiece(Blobs):
    async def stream(self, path: str, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        yield b"".join([piece async for piece in super().stream(path, start, end)])


class Blaming(Blobs):
    """Takes an error of whoever brings the pieces for one of its own."""

    async def _put_pieces(self, path: str, pieces: AsyncIterator[bytes]) -> None:  # type: ignore[override]
        await self._put(path, pieces)


@pytest.mark.parametrize(
    ("twin", "test", "given"),
    [
        (Straying, "test_a_path_that_leads_elsewhere_is_refused", {"path": "/etc/passwd"}),
        (Straying, "test_a_path_that_leads_elsewhere_is_refused", {"path": "outside/../../secret"}),
        (Unlimited, "test_a_blob_over_the_limit_is_not_read", {"size": 100}),
        (InPlace, "test_what_breaks_off_leaves_what_was_there", {"count": 1}),
        (FromTheStart, "test_a_range_is_what_lies_in_it", {"start": 2, "end": 5, "found": b"234"}),
        (InOnePiece, "test_a_large_blob_comes_and_goes_in_pieces", {}),
    ],
)
async def test_a_broken_place_is_noticed(
    tmp_path: Path, twin: type[Blobs], test: str, given: dict[str, object]
) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    (tmp_path / "blobs" / "outside").mkdir(parents=True)
    await turns_red(getattr(BlobsContract, test), blobs=of_directory(tmp_path / "blobs", twin), **given)


async def test_a_place_that_takes_the_blame_of_others_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        await of_directory(tmp_path, Blaming).put("a", pieces(1, 10, breaks=True))


# Of one place only


def test_an_ordinary_path_is_itself() -> None:
    assert check_path("raw/tiktok/vid_888.json") == "raw/tiktok/vid_888.json"


@pytest.mark.parametrize("path", NO_FILES)
async def test_a_key_that_no_file_may_have_is_put_read_and_deleted_in_s3(s3_bucket: Bucket, path: str) -> None:
    await put_read_and_deleted(of_bucket(s3_bucket), path)
    whole = of_server(s3_bucket)
    await put_read_and_deleted(whole, f"{s3_bucket.bucket}/{path}")
    if "\\" in path:
        with pytest.raises(WrongPath, match="bucket"):
            await whole.get(f"{path.rpartition('/')[2]}/a.json", 10)


async def test_the_longest_name_of_a_file_can_be_written(tmp_path: Path) -> None:
    await put_read_and_deleted(of_directory(tmp_path), f"raw/{'x' * SEGMENT_BYTES_MAX}")


@pytest.mark.parametrize("path", [*NO_FILES, LONG, "raw/a#1"])
async def test_a_key_that_no_file_may_have_is_refused_in_a_directory(tmp_path: Path, path: str) -> None:
    blobs = of_directory(tmp_path)
    for asked in (blobs.get(path, 10), blobs.put(path, b"")):
        with pytest.raises(WrongPath):
            await asked


async def test_a_key_that_the_server_cannot_keep_is_a_wrong_path_and_no_server_that_is_away(s3_bucket: Bucket) -> None:
    """S3 itself takes segments of any length; servers that keep files do not, and they are the judges of that."""
    assert check_path(LONG) == LONG
    blobs = of_bucket(s3_bucket)
    await blobs.put("raw/a.json", b"x")
    for asked in (blobs.get(LONG, 10), blobs.get(LONG, SMALL_BYTES + 1), blobs.put(LONG, b"x")):
        with pytest.raises(WrongPath, match="takes no such path"):
            await asked
    await blobs.delete(["~\\x", LONG, "raw/a#1", "raw/a.json"])
    with pytest.raises(NotFound):
        await blobs.get("raw/a.json", 10)


async def test_without_a_bucket_the_first_segment_names_it(s3_bucket: Bucket) -> None:
    whole = of_server(s3_bucket)
    await whole.prepare()
    await whole.put(f"{s3_bucket.bucket}/raw/a.json", b"x")
    assert await of_bucket(s3_bucket).get("raw/a.json", 10) == b"x"
    assert [path async for path in whole.list(f"{s3_bucket.bucket}/raw")] == [f"{s3_bucket.bucket}/raw/a.json"]
    await whole.put(f"{s3_bucket.bucket}-made/raw/b.json", b"y")
    assert await whole.get(f"{s3_bucket.bucket}-made/raw/b.json", 10) == b"y"
    with pytest.raises(WrongPath):
        await whole.get("only-a-bucket", 10)
    with pytest.raises(NotFound):
        await whole.get("no-such-bucket/raw/a.json", 10)


async def test_a_missing_bucket_is_made_once_and_is_no_missing_blob(s3_bucket: Bucket) -> None:
    blobs = Blobs(f"{s3_bucket.url}-new", keys(s3_bucket), SETTING)
    for asked in (blobs.get("raw/a.json", 10), blobs.size("raw/a.json"), streamed(blobs, "raw/a.json", 5)):
        with pytest.raises(Unreachable, match="no bucket"):
            await asked
    for _ in range(2):
        await blobs.prepare()
    await blobs.put("raw/a.json", b"x")
    await blobs.answers()


async def test_wrong_keys_are_told_as_such(s3_bucket: Bucket) -> None:
    wrong = {**keys(s3_bucket), "AWS_SECRET_ACCESS_KEY": "wrong"}
    path = f"{s3_bucket.bucket}/raw/a.json"
    blobs, whole = Blobs(s3_bucket.url, wrong, SETTING), Blobs(s3_bucket.endpoint, wrong, SETTING)
    for asked in (blobs.get("raw/a.json", 10), blobs.answers(), whole.get(path, 10), whole.answers(path)):
        with pytest.raises(Unreachable, match="credentials"):
            await asked
    await of_server(s3_bucket).answers(path)


async def test_a_server_that_is_away_is_unreachable_and_comes_back(s3_server: S3Server, s3_bucket: Bucket) -> None:
    blobs, whole = of_bucket(s3_bucket), of_server(s3_bucket)
    await blobs.put("raw/a.json", b"x")
    await whole.answers()
    s3_server.kill()
    asked = (blobs.get("raw/a.json", 10), streamed(blobs, "raw/a.json"), blobs.answers(), whole.answers())
    for call in asked:
        with pytest.raises(Unreachable):
            await call
    s3_server.restart()
    assert await blobs.get("raw/a.json", 10) == b"x"


@pytest.mark.parametrize("url", ["ftp://h/b", "http://", "http://h/b/c", "bucket"])
def test_a_place_that_is_none_is_refused_under_its_name(url: str) -> None:
    with pytest.raises(CallerError, match=SETTING):
        Blobs(url, {}, SETTING)


@pytest.mark.parametrize(
    "url", ["http://u:secret@h/b", "ftp://u:secret@h/b", "http://u:secret[@h/b", "http://u:secret@h/a/b"]
)
def test_a_password_in_the_address_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(CallerError, match=SETTING) as raised:
        Blobs(url, {}, SETTING)
    assert "secret" not in f"{raised.value} {raised.value.hint}"


async def test_a_directory_that_cannot_be_made_is_told_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperatorError, match="cannot be made") as raised:
        await of_directory(tmp_path / "file" / "below").prepare()
    assert SETTING in raised.value.hint


async def test_a_limit_is_kept_also_above_what_one_call_reads(tmp_path: Path) -> None:
    blobs = of_directory(tmp_path)
    await blobs.put("a", pieces(3, SMALL_BYTES))
    with pytest.raises(TooLarge):
        await blobs.get("a", 2 * SMALL_BYTES)
