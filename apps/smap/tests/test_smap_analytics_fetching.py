"""Blobs are read from files and from S3; each that cannot be read is a fault of its own, and a server away is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from smap_posts import PROJECT, post

from headrace.blobs import Blobs
from headrace.errors import Unreachable
from headrace.testing.rig.s3 import Bucket, S3Server
from headrace_smap.analytics.blob_fetcher import SMALL_BYTES_MAX, BlobFetcher
from headrace_smap.analytics.posts import HandledPost

BYTES_MAX = 1_000_000


@pytest.fixture(params=["files", "s3"])
async def blobs(request: pytest.FixtureRequest) -> Blobs:
    if request.param == "files":
        opened = Blobs((request.getfixturevalue("tmp_path") / "blobs").as_uri(), {}, "SMAP_S3_URL")
    else:
        bucket: Bucket = request.getfixturevalue("s3_bucket")
        opened = of_bucket(bucket)
    await opened.prepare()
    return opened


def of_bucket(bucket: Bucket) -> Blobs:
    keys = {"AWS_ACCESS_KEY_ID": bucket.access_key, "AWS_SECRET_ACCESS_KEY": bucket.secret_key}
    return Blobs(bucket.url, keys, "SMAP_S3_URL")


def posts(*paths: str) -> list[HandledPost]:
    return [HandledPost(PROJECT, path, path, b"") for path in paths]


async def test_every_kind_of_blob_has_its_own_end(blobs: Blobs) -> None:
    small, large, huge = post(), b" " * SMALL_BYTES_MAX + post(), b" " * (BYTES_MAX + 1)
    for path, data in (("small.json", small), ("large.json", large), ("huge.json", huge)):
        await blobs.put(f"raw/{path}", data)
    fetcher = BlobFetcher(blobs, 4, BYTES_MAX)
    batch = posts("raw/small.json", "raw/none.json", "raw/large.json", "raw/huge.json")
    put_off = await fetcher.small(batch)
    assert {each.path for each in put_off} == {"raw/large.json", "raw/huge.json"}
    for each in put_off:
        await fetcher.large(each)
    assert [each.raw and len(each.raw) for each in batch] == [len(small), None, len(large), None]
    assert [each.fault and each.fault.rule for each in batch] == [None, "blob_missing", None, "blob_too_large"]


async def test_a_blob_that_cannot_be_read_while_others_can_is_its_posts_fault(blobs: Blobs) -> None:
    await blobs.put("raw/a.json", post())
    batch = posts("raw/a.json", "raw/a.json/below-a-file.json")
    assert await BlobFetcher(blobs, 4, BYTES_MAX).small(batch) == []
    assert batch[0].raw == post()
    assert batch[1].fault is not None
    assert batch[1].fault.rule in ("blob_unreadable", "blob_missing")


@pytest.mark.parametrize(
    "path", ["../secret.json", "/etc/passwd", "raw//a.json", "raw/\x07.json", "raw/\x00", "x" * 300]
)
async def test_a_path_that_no_blob_can_have_is_a_fault(path: str, tmp_path: Path) -> None:
    batch = posts(path)
    assert await BlobFetcher(Blobs(tmp_path.as_uri(), {}, "SMAP_S3_URL"), 4, BYTES_MAX).small(batch) == []
    assert batch[0].fault is not None
    assert batch[0].fault.rule == "blob_path"


async def test_keys_that_are_refused_are_nobodys_fault(s3_bucket: Bucket) -> None:
    """Without a bucket in the address, so that only paths name them."""
    keys = {"AWS_ACCESS_KEY_ID": s3_bucket.access_key, "AWS_SECRET_ACCESS_KEY": "rotated"}
    path = f"{s3_bucket.bucket}/raw/a.json"
    batch = posts(path)
    with pytest.raises(Unreachable):
        await BlobFetcher(Blobs(s3_bucket.endpoint, keys, "SMAP_S3_URL"), 4, BYTES_MAX).small(batch)
    assert batch[0].fault is None


class Forbidding(Blobs):
    """Does not let us near some blobs, and does not say whether it is well."""

    async def get(self, path: str, bytes_max: int) -> bytes:
        if path.startswith("secret/"):
            raise Unreachable("refuses our credentials")
        return await super().get(path, bytes_max)

    async def answers(self, path: str = "") -> None:
        raise Unreachable("refuses our credentials")


async def test_a_blob_that_is_forbidden_while_others_can_be_read_is_its_posts_fault(tmp_path: Path) -> None:
    blobs = Forbidding(tmp_path.as_uri(), {}, "SMAP_S3_URL")
    await blobs.put("raw/a.json", post())
    fetcher = BlobFetcher(blobs, 4, BYTES_MAX)
    with pytest.raises(Unreachable):
        await fetcher.small(posts("secret/a.json"))
    batch = posts("secret/a.json", "raw/a.json")
    await fetcher.small(batch)
    assert batch[1].raw == post()
    assert batch[0].fault is not None
    assert batch[0].fault.rule == "blob_unreadable"


async def test_a_server_that_is_away_is_nobodys_fault(s3_bucket: Bucket, s3_server: S3Server) -> None:
    blobs = of_bucket(s3_bucket)
    await blobs.put("raw/a.json", post())
    batch = posts("raw/a.json")
    s3_server.kill()
    with pytest.raises(Unreachable):
        await BlobFetcher(blobs, 4, BYTES_MAX).small(batch)
    assert (batch[0].fault, batch[0].raw) == (None, None)
    s3_server.start()
    await BlobFetcher(blobs, 4, BYTES_MAX).small(batch)
    assert batch[0].raw == post()
