"""Where blobs are: a bucket, a server whose buckets are named by paths, or a directory.

https://host:port/bucket      a bucket; credentials by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
https://host:port             no bucket: the first segment of each path names it
file:///directory             a directory
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.blobs.paths import WrongPath, check_file, check_path, split_bucket
from headrace.core.errors import CallerError, MissingExtra, NotFound, OperatorError, Unreachable
from headrace.services import Sources, read, setting

if TYPE_CHECKING:
    from obstore.store import LocalStore, S3Store

TIMEOUT_S = 30
_ATTEMPTS = 3
_FORMS = "http(s)://host:port/bucket or file:///directory"
_NO_KEY = re.compile("(?:<Code>|code: )(?:KeyTooLongError|XMinioInvalidObjectName|XMinioInvalidResourceName)")
"""What servers say that keep keys as files, and could not make one of this."""


@dataclass(frozen=True, slots=True)
class S3Keys:
    """Settings of S3, under the names that every tool for it knows."""

    access_key_id: str = setting("", "the key of S3")
    secret_access_key: str = setting("", "its secret", secret=True)
    region: str = setting("", "the region of the bucket", without="`AWS_DEFAULT_REGION`")
    default_region: str = setting("us-east-1", "the region without `AWS_REGION`")


async def make_directory(place: Path, setting: str) -> None:
    """Make a directory if it is missing, or say in words that it cannot be made."""
    try:
        await asyncio.to_thread(place.mkdir, parents=True, exist_ok=True)
    except OSError as error:
        words = f"the directory {place} cannot be made: {error.strerror}"
        raise OperatorError(words, f"name another by {setting}, or make it writable") from None


class BlobPlace:
    """What a URL names. `setting` is the name under which it was given, for errors."""

    def __init__(self, url: str, environment: Mapping[str, str], setting: str) -> None:
        if importlib.util.find_spec("obstore") is None:
            hint = f"{sys.executable} -m pip install 'headrace[blobs]'"
            raise MissingExtra("blobs need obstore, which is not installed", hint)
        self._keys, self._setting = read(S3Keys, Sources("AWS_", environment)), setting
        parts = _parts(url, setting)
        self.directory = Path(unquote(parts.path)) if parts.scheme == "file" else None
        self.endpoint = f"{parts.scheme}://{parts.netloc}"
        self.bucket = "" if self.directory else parts.path.strip("/")
        if "/" in self.bucket:
            raise CallerError(f"{setting}={url!r} names more than a bucket", _FORMS)
        self._stores: dict[str, S3Store | LocalStore] = {}

    async def make(self) -> None:
        """Make the bucket or the directory if it is missing."""
        if self.directory:
            await make_directory(self.directory, self._setting)
        elif self.bucket:
            await self.make_bucket(self.bucket)

    def of(self, path: str) -> tuple[Any, str]:
        """The client for a path, and the key by which it knows the blob."""
        if self.directory:
            return self._client(""), check_file(path)
        if self.bucket:
            return self._client(self.bucket), check_path(path)
        bucket, key = split_bucket(path)
        return self._client(bucket), key

    async def make_bucket(self, bucket: str) -> None:
        """By a signed request: object clients know objects only."""
        import obstore

        address = obstore.sign(self._opened_bucket(bucket), "PUT", "", timedelta(seconds=TIMEOUT_S))
        status = await self.ask("PUT", address)
        # 409: it is there. 403 is told by the first request that matters: a bucket may be given without that right.
        if status not in (200, 403, 409):
            raise Unreachable(f"{self.endpoint} refuses to make the bucket {bucket}: HTTP {status}")

    async def ask(self, method: str, address: str) -> int:
        """One plain request; the status of its answer."""
        import httpx

        try:
            async with httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False) as client:
                return (await client.request(method, address)).status_code
        except httpx.HTTPError as error:
            raise Unreachable(f"{self.endpoint} does not answer: {error!r}", "is the S3 server up?") from None

    @contextlib.contextmanager
    def words(self, path: str) -> Iterator[None]:
        """Errors of the client in ours."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except FileNotFoundError as error:
            if self.bucket and "NoSuchBucket" in str(error):
                raise Unreachable(
                    f"{self.endpoint} has no bucket {self.bucket}", "a service makes it at its start"
                ) from None
            raise NotFound(f"there is no blob {path}") from None
        except (PermissionDeniedError, UnauthenticatedError):
            hint = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise Unreachable(f"{self.endpoint} refuses our credentials", hint) from None
        except (BaseError, OSError) as error:
            if "Not a directory" in str(error) or "Is a directory" in str(error):
                raise NotFound(f"there is no blob {path}") from None
            if _NO_KEY.search(str(error).replace(path, "")):
                raise WrongPath(
                    f"{self.endpoint} takes no such path: a segment of it is too long or has no meaning there"
                ) from None
            raise Unreachable(f"blobs cannot be reached: {str(error).splitlines()[0][:300]}") from None

    def _client(self, bucket: str) -> S3Store | LocalStore:
        if bucket not in self._stores:
            self._stores[bucket] = self._opened(bucket)
        return self._stores[bucket]

    def _opened(self, bucket: str) -> S3Store | LocalStore:
        from obstore.store import LocalStore

        return LocalStore(self.directory, mkdir=True) if self.directory else self._opened_bucket(bucket)

    def _opened_bucket(self, bucket: str) -> S3Store:
        from obstore.store import S3Store

        return S3Store(
            bucket,
            endpoint=self.endpoint,
            access_key_id=self._keys.access_key_id,
            secret_access_key=self._keys.secret_access_key,
            region=self._keys.region or self._keys.default_region,
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": timedelta(seconds=TIMEOUT_S)},
            retry_config={"max_retries": _ATTEMPTS, "retry_timeout": timedelta(seconds=TIMEOUT_S)},
        )


def _parts(url: str, setting: str) -> SplitResult:
    """The parts of a place for blobs. No password may stand in it: the address is shown in errors."""
    if "@" in url and not url.startswith("file:"):
        hint = f"{_FORMS}; keys by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        raise CallerError(f"{setting} holds a user name or a password, which do not belong there", hint)
    try:
        parts = urlsplit(url)
        wrong = parts.scheme not in ("http", "https", "file") or (parts.scheme != "file" and not parts.hostname)
        wrong = wrong or (parts.port is not None and parts.scheme == "file")
    except ValueError:
        wrong = True
    if wrong:
        raise CallerError(f"{setting}={url!r} is no place for blobs", _FORMS)
    return parts
