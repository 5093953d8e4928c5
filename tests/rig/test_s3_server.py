"""S3: buckets come and go, conditional writes have one winner, and what was acknowledged survives a kill."""

from __future__ import annotations

import asyncio
import http.client
import os
from pathlib import Path

import pytest
from obstore.exceptions import AlreadyExistsError, PermissionDeniedError, PreconditionError
from obstore.store import S3Store

from headrace.testing.rig import s3_requests
from headrace.testing.rig.s3 import Bucket, S3Server, has_attributes
from headrace.testing.rig.s3_requests import Signer

WRITERS = 16
MEGABYTE = 1 << 20
VERSIONED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def store_of(bucket: Bucket) -> S3Store:
    return S3Store(
        bucket.bucket,
        endpoint=bucket.endpoint,
        region=bucket.region,
        access_key_id=bucket.access_key,
        secret_access_key=bucket.secret_key,
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )


def read(store: S3Store, key: str) -> bytes:
    return bytes(store.get(key).bytes())


async def test_a_conditional_put_has_exactly_one_winner(s3_bucket: Bucket) -> None:
    store = store_of(s3_bucket)

    async def create(writer: int) -> int | None:
        try:
            await store.put_async("key", str(writer).encode(), mode="create")
        except AlreadyExistsError:
            return None
        return writer

    [winner] = [each for each in await asyncio.gather(*map(create, range(WRITERS))) if each is not None]
    assert read(store, "key") == str(winner).encode()
    seen = store.head("key")["e_tag"]

    async def replace(writer: int) -> int | None:
        try:
            await store.put_async("key", f"again {writer}".encode(), mode={"e_tag": seen})
        except PreconditionError:
            return None
        return writer

    [winner] = [each for each in await asyncio.gather(*map(replace, range(WRITERS))) if each is not None]
    assert read(store, "key") == f"again {winner}".encode()


def test_an_object_may_be_put_in_parts(s3_bucket: Bucket) -> None:
    store = store_of(s3_bucket)
    body = os.urandom(12 * MEGABYTE)
    put = store.put("large", body, use_multipart=True, chunk_size=5 * MEGABYTE)
    assert str(put["e_tag"]).strip('"').endswith("-3"), "three parts"
    assert read(store, "large") == body


def test_a_killed_server_keeps_what_it_acknowledged(s3_server: S3Server, s3_bucket: Bucket) -> None:
    store = store_of(s3_bucket)
    for number in range(50):
        store.put(f"folder/{number}", str(number).encode(), attributes={"Content-Type": "text/plain", "number": "7"})
    s3_server.kill()
    s3_server.start()
    listed = {each["path"] for page in store.list() for each in page}
    assert listed == {f"folder/{number}" for number in range(50)}
    found = store.get("folder/49")
    assert bytes(found.bytes()) == b"49"
    assert found.attributes == {"Content-Type": "text/plain", "number": "7"}


def leave_everything_behind(server: S3Server, bucket: Bucket) -> None:
    """Versions, a mark of deletion and an upload that nobody finishes."""
    assert server.request("PUT", bucket.bucket, {"versioning": ""}, VERSIONED).status == http.client.OK
    store = store_of(bucket)
    for body in (b"first", b"second"):
        store.put("key", body)
    store.delete("key")
    assert server.request("POST", f"{bucket.bucket}/large", {"uploads": ""}).status == http.client.OK
    assert server.request("GET", bucket.bucket, {"versions": ""}).body.count(b"<Version>") == 2


@pytest.mark.parametrize("server_is_there", [True, False])
def test_a_bucket_goes_with_all_that_is_in_it(s3_server: S3Server, s3_bucket: Bucket, server_is_there: bool) -> None:
    with s3_server.bucket() as other:
        leave_everything_behind(s3_server, other)
        if not server_is_there:
            s3_server.kill()
    if not server_is_there:
        s3_server.start()
    assert s3_server.request("HEAD", other.bucket).status == http.client.NOT_FOUND
    assert s3_server.request("HEAD", s3_bucket.bucket).status == http.client.OK
    assert s3_server.request("PUT", other.bucket).status == http.client.OK
    assert b"<Version>" not in s3_server.request("GET", other.bucket, {"versions": ""}).body
    assert s3_server.request("DELETE", other.bucket).status == http.client.NO_CONTENT, "it is empty"


def test_requests_are_signed_as_the_server_checks_them(s3_server: S3Server, s3_bucket: Bucket) -> None:
    store_of(s3_bucket).put("a key/ü+~", b"body")
    query = {"prefix": "a key/ü+~", "list-type": "2", "max-keys": "10"}
    assert b"<KeyCount>1</KeyCount>" in s3_server.request("GET", s3_bucket.bucket, query).body
    assert s3_server.request("GET", f"{s3_bucket.bucket}/a key/ü+~").body == b"body"
    impostor = Signer(s3_server.access_key, "wrong", s3_server.region)
    assert s3_requests.send(impostor, "GET", s3_server.url).status == http.client.FORBIDDEN


def test_a_file_system_without_attributes_is_noticed(tmp_path: Path) -> None:
    assert has_attributes(tmp_path)
    assert not has_attributes(Path("/proc/self")), "as an old tmpfs"


def test_what_s3_knows_of_objects_may_be_kept_beside_them(tmp_path: Path) -> None:
    with S3Server({"meta_sidecar": str(tmp_path)}) as server, server.bucket() as bucket:
        store = store_of(bucket)
        store.put("key", b"deleted")
        store.delete("key")
        store.put("key", b"body", attributes={"Content-Type": "text/plain"})
        server.restart()
        assert read(store, "key") == b"body"
        assert store.get("key").attributes == {"Content-Type": "text/plain"}
        assert os.listxattr(server.home / "data" / bucket.bucket / "key") == []
        assert (tmp_path / bucket.bucket).exists()
    assert not (tmp_path / bucket.bucket).exists()


def test_settings_hold_for_one_start(s3_server: S3Server, s3_bucket: Bucket) -> None:
    store = store_of(s3_bucket)
    s3_server.stop()
    s3_server.start({"read_only": "true"})
    with pytest.raises(PermissionDeniedError):
        store.put("key", b"body")
    s3_server.restart()
    store.put("key", b"body")


def test_a_client_finds_it_by_its_environment(s3_server: S3Server, s3_bucket: Bucket) -> None:
    known = {name.lower(): value for name, value in s3_server.variables(s3_server.url).items() if name != "S3_URL"}
    store = S3Store(s3_bucket.bucket, config=known, client_options={"allow_http": True})
    store.put("key", b"body")
    assert read(store_of(s3_bucket), "key") == b"body"
