"""Raw posts in an S3 bucket or a directory, by their `minio_path`.

    SMAP_S3_URL=https://host:port/bucket      a bucket; credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    SMAP_S3_URL=https://host:port             no bucket: the first segment of each path names it
    SMAP_S3_URL=file:///directory             a directory

A path comes from messages of anybody: what could leave its place or break a line of a log is refused, not repaired.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.errors import CallerError, NotFound, OperatorError, TooLarge, Unreachable
from headrace.services import Sources, read, setting

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

PATH_BYTES_MAX = 1_024
SEGMENT_BYTES_MAX = 250
"""Of a file: it is written under a slightly longer name first."""
DELETES_AT_ONCE = 20
SMALL_BYTES = 1_048_576
TIMEOUT_S = 30
_ATTEMPTS = 3
_FORMS = "http(s)://host:port/bucket or file:///directory"
_CONTROLS = frozenset(("Cc", "Cs", "Zl", "Zp"))
"""Control characters, half surrogates and the two separators that end a line."""
_UNFINISHED = re.compile(r"#\d+$")
"""How the client library names a file that it has not finished; it reads and removes none."""
_BUCKET = re.compile(r"[A-Za-z0-9._-]{1,255}")
_NO_KEY = re.compile("(?:<Code>|code: )(?:KeyTooLongError|XMinioInvalidObjectName|XMinioInvalidResourceName)")
"""What servers say that keep keys as files, and could not make one of this."""


class WrongPath(CallerError):
    """A path that no blob can have."""


def check_path(path: str) -> str:
    """The path itself if it may be the key of a blob: relative, without `..`, without control characters.

    S3 would also take empty segments and `.`; the client library cannot ask for them, so they are refused here.
    """
    if path.startswith("/") or not (path.isprintable() or _CONTROLS.isdisjoint(map(unicodedata.category, path))):
        raise WrongPath("the path is absolute, or holds a control character")
    if any(segment in ("", ".", "..") for segment in path.split("/")):
        raise WrongPath("the path is empty, or holds an empty segment, . or ..")
    if len(path.encode()) > PATH_BYTES_MAX:
        raise WrongPath(f"the path is over PATH_BYTES_MAX = {PATH_BYTES_MAX:,}")
    return path


def check_file(path: str) -> str:
    """The path itself if it may also be a file's below a directory, on any system."""
    if check_path(path).startswith("~") or "\\" in path or _UNFINISHED.search(path):
        raise WrongPath(
            "the path begins with ~, holds a backslash or ends with # and a number, as no file of ours does"
        )
    if max(len(segment.encode()) for segment in path.split("/")) > SEGMENT_BYTES_MAX:
        raise WrongPath(f"a segment of the path is over SEGMENT_BYTES_MAX = {SEGMENT_BYTES_MAX}, which files have")
    return path


async def make_directory(place: Path, setting: str) -> None:
    """Make a directory if it is missing, or say in words that it cannot be made."""
    try:
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    except OSError as error:
        words = f"the directory {place} cannot be made: {error.strerror}"
        raise OperatorError(words, f"name another by {setting}, or make it writable") from None


def _parts(url: str) -> SplitResult:
    """The parts of a place for blobs. Nobody's password may stand in it: the address is shown in errors."""
    if "@" in url and not url.startswith("file:"):
        hint = f"{_FORMS}; keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise CallerError("SMAP_S3_URL holds a user name or a password, which do not belong there", hint)
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https", "file") or (parts.scheme != "file" and not parts.hostname)
        wrong = wrong or (parts.port is not None and parts.scheme == "file")
    except ValueError:
        wrong = True
    if wrong:
        raise CallerError(f"SMAP_S3_URL={url!r} is no place for blobs", _FORMS)
    return parts


@dataclass(frozen=True, slots=True)
class S3Keys:
    """Settings of S3, under the names that every tool for it knows."""

    access_key_id: str = setting("", "the key of S3")
    secret_access_key: str = setting("", "its secret", secret=True)
    region: str = setting("", "the region of the bucket", without="`AWS_DEFAULT_REGION`")
    default_region: str = setting("us-east-1", "the region without `AWS_REGION`")


class Blobs:
    """A bucket or a directory. Any number of calls may run at once.

    `Unreachable`: the server does not answer, and the same call later may work. `NotFound`: there is no such blob.
    """

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        self._url, self._keys = url, read(S3Keys, Sources("AWS_", environment))
        parts = _parts(url)
        self._directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self._endpoint = f"{parts.scheme}://{parts.netloc}"
        self.bucket = "" if self._directory else parts.path.strip("/")
        if "/" in self.bucket:
            raise CallerError(f"SMAP_S3_URL={url!r} names more than a bucket", _FORMS)
        self._stores: dict[str, S3Store | LocalStore] = {}

    async def prepare(self) -> None:
        """Make the bucket or the directory if it is missing."""
        if self._directory:
            await make_directory(self._directory, "SMAP_S3_URL")
        elif self.bucket:
            await self._make_bucket(self.bucket)

    async def put(self, path: str, data: bytes) -> None:
        """Write a blob, whole or not at all; again with the same bytes is harmless. A bucket that only the path names
        is made if need be."""
        import obstore

        store, key = self._place(path)
        try:
            with self._words(path):
                await obstore.put_async(store, key, data)
        except NotFound:
            if self.bucket or self._directory:
                raise
            await self._make_bucket(path.partition("/")[0])
            with self._words(path):
                await obstore.put_async(store, key, data)

    async def get(self, path: str, bytes_max: int) -> bytes:
        """A blob's bytes. `TooLarge`: there are more than `bytes_max`, and they were not read."""
        import obstore

        store, key = self._place(path)
        if bytes_max <= SMALL_BYTES and (small := await self._small(store, key, bytes_max)) is not None:
            return small
        with self._words(path):
            answer = await obstore.get_async(store, key)
            if (size := int(answer.meta["size"])) > bytes_max:
                raise TooLarge(f"the blob has {size:,} bytes, which is over the limit of {bytes_max:,}")
            return bytes(await answer.bytes_async())

    async def _small(self, store: Any, key: str, bytes_max: int) -> bytes | None:
        """One call where `get` needs two, at two thirds of the cost *measured*. None: ask the other way, which knows
        what is wrong; a range of an empty blob, for instance, is an error."""
        import obstore
        from obstore.exceptions import BaseError

        try:
            data = bytes(await obstore.get_range_async(store, key, start=0, end=bytes_max + 1))
        except (BaseError, OSError):
            return None
        if len(data) > bytes_max:
            raise TooLarge(f"the blob has more bytes than the limit of {bytes_max:,}")
        return data

    async def delete(self, paths: Iterable[str]) -> None:
        """Remove blobs; one that is not there is removed, and so is one that cannot be there."""
        import obstore

        turn = asyncio.Semaphore(DELETES_AT_ONCE)

        async def one(path: str) -> None:
            async with turn:
                with contextlib.suppress(NotFound, WrongPath), self._words(path):
                    await obstore.delete_async(*self._place(path))

        await asyncio.gather(*(one(path) for path in paths))

    async def list(self, prefix: str) -> AsyncIterator[str]:
        """The paths below a prefix, as `get` and `delete` take them."""
        import obstore

        store, key = self._place(prefix)
        bucket = prefix.removesuffix(key)
        with self._words(prefix):
            async for page in obstore.list(store, key):
                for found in page:
                    yield f"{bucket}{found['path']}"

    async def answers(self, path: str = "") -> None:
        """Raise `Unreachable` if the place does not answer, or does not let us in. Where only paths name buckets, that
        of `path` is asked."""
        if self._directory:
            if not await asyncio.to_thread(self._directory.is_dir):
                raise Unreachable(f"there is no directory {self._directory}")
            return
        bucket = "" if self.bucket else f"{path.partition('/')[0]}/"
        if not self.bucket and not path and await self._ask("GET", self._endpoint) >= 500:
            raise Unreachable(f"{self._endpoint} answers, and not well", "is the S3 server all right?")
        if self.bucket or path:
            with contextlib.suppress(NotFound):
                await self.get(f"{bucket}headrace/answers", 1)

    def _place(self, path: str) -> tuple[Any, str]:
        if self._directory:
            return self._store(""), check_file(path)
        if self.bucket:
            return self._store(self.bucket), check_path(path)
        bucket, _, key = check_path(path).partition("/")
        if not key:
            raise WrongPath(f"{path!r} names a bucket and no blob in it")
        if not _BUCKET.fullmatch(bucket):
            raise WrongPath(f"{path!r} begins with what is no name of a bucket")
        return self._store(bucket), key

    def _store(self, bucket: str) -> S3Store | LocalStore:
        if bucket not in self._stores:
            self._stores[bucket] = self._opened(bucket)
        return self._stores[bucket]

    def _opened(self, bucket: str) -> S3Store | LocalStore:
        from obstore.store import LocalStore

        return LocalStore(self._directory, mkdir=True) if self._directory else self._opened_bucket(bucket)

    def _opened_bucket(self, bucket: str) -> S3Store:
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=self._endpoint,
            access_key_id=self._keys.access_key_id,
            secret_access_key=self._keys.secret_access_key,
            region=self._keys.region or self._keys.default_region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": timedelta(seconds=TIMEOUT_S)},
            retry_config={"max_retries": _ATTEMPTS, "retry_timeout": timedelta(seconds=TIMEOUT_S)},
        )

    async def _make_bucket(self, bucket: str) -> None:
        """By a signed request: object clients know objects only."""
        import obstore

        address = obstore.sign(self._opened_bucket(bucket), "PUT", "", timedelta(seconds=TIMEOUT_S))
        status = await self._ask("PUT", address)
        # 409: it is there. 403 is told by the first request that matters: a bucket may be given without that right.
        if status not in (200, 403, 409):
            raise Unreachable(f"{self._endpoint} refuses to make the bucket {bucket}: HTTP {status}")

    async def _ask(self, method: str, address: str) -> int:
        """One plain request; the status of its answer."""
        import httpx

        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                return (await client.request(method, address)).status_code
        except httpx.HTTPError as error:
            raise Unreachable(f"{self._endpoint} does not answer: {error!r}", "is the S3 server up?") from None

    @contextlib.contextmanager
    def _words(self, path: str) -> Iterator[None]:
        """Errors of the client in ours."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            if self.bucket and "NoSuchBucket" in str(error):
                raise Unreachable(
                    f"{self._endpoint} has no bucket {self.bucket}", "a service makes it at its start"
                ) from None
            raise NotFound(f"there is no blob {path}") from None
        except (PermissionDeniedError, UnauthenticatedError):
            hint = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise Unreachable(f"{self._endpoint} refuses our credentials", hint) from None
        except (BaseError, OSError) as error:
            if "Not a directory" in str(error) or "Is a directory" in str(error):
                raise NotFound(f"there is no blob {path}") from None
            if _NO_KEY.search(str(error).replace(path, "")):
                raise WrongPath(
                    f"{self._endpoint} takes no such path: a segment of it is too long or has no meaning there"
                ) from None
            raise Unreachable(f"blobs cannot be reached: {str(error).splitlines()[0][:300]}") from None
